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
