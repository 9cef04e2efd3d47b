# SPDX-License-Identifier: Apache-2.0
"""Exceptions of slipstream, made from status codes."""
from slipstream import _core

_CLASSES = {"TIMEOUT": "TimedOutError", "IO": "IoError"}


def error_class(name):
    """The class of a status code's name: INVALID_ARGUMENT -> InvalidArgumentError."""
    if name.startswith("CAPACITY_"):
        return _core.CapacityError
    if name.startswith("GRAPH_"):
        return _core.GraphError
    found = getattr(_core, _CLASSES.get(name, "".join(part.capitalize() for part in name.split("_")) + "Error"), None)
    return found if isinstance(found, type) and issubclass(found, _core.SlipError) else _core.SlipError


def make(code, platform_code, name, text):
    """An exception that has not been raised."""
    error = error_class(name)(text)
    error.code, error.platform_code, error.name = code, platform_code, name
    return error


def invalid(text):
    return make(-4, 0, "INVALID_ARGUMENT", text)


def wrong_type(text):
    error = _core.ArgumentTypeError(text)
    error.code, error.platform_code, error.name = -4, 0, "INVALID_ARGUMENT"
    return error


def unsupported(text):
    return make(-2, 0, "UNSUPPORTED", text)


def invalid_state(text):
    return make(-5, 0, "INVALID_STATE", text)


def conflict(text):
    return make(-7, 0, "CONFLICT", text)
