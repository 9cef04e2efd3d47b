# SPDX-License-Identifier: Apache-2.0
"""Program mode with tensors of PyTorch."""


def test_tensors_of_torch(fresh, tmp_path):
    done = fresh(f"""
import os
artifact = slipstream.compile(os.path.join(TESTS, "..", "..", "..", "examples", "axpy", "axpy.json"), {str(tmp_path / "axpy.slipc")!r}, contract="program")
def refused(call, *args):
    try:
        call(*args)
    except slipstream.InvalidArgumentError as error:
        return str(error)
    raise SystemExit("not refused")
with slipstream.Worker() as worker:
    axpy = worker.register(artifact)
    x, y = torch.ones(4), torch.zeros(4)
    assert axpy(x, y, 2.0) is y and y.tolist() == [2] * 4
    assert axpy.submit(x, y, 1.0).result() is y and y.tolist() == [3] * 4
    # The storage is kept until the run is done, whatever becomes of the object.
    z = torch.full((1 << 16,), 3.0)
    run = axpy.submit(torch.ones(1 << 16), z, 1.0)
    z2 = z.detach()
    z.set_()
    run.wait()
    assert (z2 == 4).all()
    w = torch.ones(4, requires_grad=True)
    assert "'x'" in refused(axpy, w, y, 1.0) and "grad" in refused(axpy, x, w, 1.0)
    with torch.no_grad():
        assert axpy(w, y, 1.0) is y and y.tolist() == [4] * 4
    assert axpy(w.detach(), y, 1.0) is y
    assert "'x'" in refused(axpy, torch._neg_view(x), y, 1.0) and "'x'" in refused(axpy, torch.ones(4, 2).t()[0], y, 1.0)
    t = worker.tensor(x)
    assert t.copy_to(torch.zeros(4)).tolist() == [1] * 4 and t.copy_from(y).numpy().tolist() == [5] * 4
    refused(t.copy_from, torch._neg_view(x))
    view = torch.from_dlpack(t)
    view += 1
    try:
        worker.close()
        raise SystemExit("not refused")
    except slipstream.BusyError:
        del view
    assert t.numpy().tolist() == [6] * 4 and axpy(t, y, 0.0) is y
    half = worker.tensor(torch.ones(3, dtype=torch.bfloat16))
    assert half.dtype == "bf16" and half.copy_to(torch.zeros(3, dtype=torch.bfloat16)).sum() == 3
print("end")
""")
    assert done.stdout.endswith("end\n"), done.stdout + done.stderr
