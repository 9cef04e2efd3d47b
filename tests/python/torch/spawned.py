# SPDX-License-Identifier: Apache-2.0
"""What a spawned process runs: a module of its own, so that the child can import it."""


def work(rank, artifact, queue):
    import torch

    import slipstream.torch as slip_torch

    slip_torch.init()
    axpy = slip_torch.load(artifact)
    y = torch.zeros(4)
    axpy(torch.ones(4), y, float(rank + 1))
    queue.put((rank, y.tolist()))


class Rows:
    """A data set whose items an operator makes, loaded by the worker's own start(). The operator itself would be unpickled before that."""

    def __init__(self, operator=None):
        self.operator = operator

    def __len__(self):
        return 4

    def __getitem__(self, index):
        import torch

        y = torch.zeros(3)
        (self.operator or torch.ops.slip.axpy)(torch.full((3,), float(index)), y, 2.0)
        return y


class Start:
    def __init__(self, artifact):
        self.artifact = artifact

    def __call__(self, worker):
        import slipstream.torch as slip_torch

        slip_torch.init()
        slip_torch.load(self.artifact)
