# SPDX-License-Identifier: Apache-2.0
"""Kernel mode: open, prepare, launch, close.

The methods of Context and Callable are the usual way; the functions here say the same in the words of the C interface.
"""
from typing import Any

from ._core import INLINE, Artifact, Callable, Context, Graph, Ticket, open

__all__ = ["INLINE", "Callable", "Context", "Graph", "Ticket", "close", "launch", "open", "prepare"]


def prepare(context: Context, artifact: Artifact) -> Callable:
    """context.prepare(artifact): validates and loads an artifact and returns a Callable."""
    return context.prepare(artifact)


def launch(callable: Callable, stream: Any, *args: Any, **named: Any) -> Ticket:
    """callable.launch(stream, *args, **named): enqueues one call on stream and returns its Ticket."""
    return callable.launch(stream, *args, **named)


def close(context: Context) -> None:
    """context.close(): gives this share of the context back; the last share closes it."""
    context.close()
