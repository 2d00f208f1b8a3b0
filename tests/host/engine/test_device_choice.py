"""Argument, CLNET_DEVICE, GPU, Intel CPU, other CPU, PoCL, NumPy; and refusals that say the way out."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clnet.engine.device import devices as module
from clnet.engine.device.device import TARGET, compiled_lanes
from clnet.engine.device.devices import HOST, Device, devices, select
from clnet.engine.device.known_runtimes import named
from clnet.errors import ConfigError, NoDeviceError

ROOT = Path(__file__).resolve().parents[3]


def profile(name: str, platform: str, kind: str, runtime: str) -> dict[str, Any]:
    changed = replace(HOST, name=name, platform=platform, kind=kind, runtime=runtime, handle=object())
    fields = {field: getattr(changed, field) for field in changed.__dataclass_fields__}
    del fields["key"]
    return fields


H200 = profile("NVIDIA H200", "NVIDIA CUDA", "gpu", "nvidia")
INTEL = profile("AMD EPYC", "Intel(R) OpenCL", "cpu", "intel")
POCL = profile("pthread-AMD EPYC", "Portable Computing Language", "cpu", "pocl")
AMD = profile("AMD EPYC", "AMD Accelerated Parallel Processing", "cpu", "amd")
OCLGRIND = profile("Oclgrind Simulator", "Oclgrind", "gpu", "oclgrind")


def present(monkeypatch: pytest.MonkeyPatch, *profiles: dict[str, Any]) -> None:
    found = module._with_keys(sorted(profiles, key=module._rank))
    monkeypatch.setattr(module, "_found", (*found, HOST))
    monkeypatch.delenv("CLNET_DEVICE", raising=False)


def test_order_of_preference(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = [POCL, OCLGRIND, AMD, INTEL, H200]
    for best in ("nvidia", "intel", "amd-cpu", "pocl", "numpy"):
        present(monkeypatch, *everything)
        device, reason = select()
        assert device.key == best
        assert best in reason
        everything = [p for p in everything if p is not OCLGRIND and p["runtime"] != device.runtime] + [OCLGRIND]


def test_keys_number_equal_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    present(monkeypatch, H200, INTEL, H200)
    assert [device.key for device in devices()] == ["nvidia", "nvidia:1", "intel", "numpy"]
    assert select("nvidia:1")[0].key == "nvidia:1"


def test_argument_beats_variable_beats_order(monkeypatch: pytest.MonkeyPatch) -> None:
    present(monkeypatch, H200, INTEL, POCL)
    monkeypatch.setenv("CLNET_DEVICE", "pocl")
    assert select()[0].key == "pocl"
    assert "CLNET_DEVICE=pocl" in select()[1]
    assert select("cpu")[0].key == "intel"
    assert select("h200")[0].key == "nvidia"


@pytest.mark.parametrize(
    ("spec", "key"),
    [("gpu", "nvidia"), ("cpu", "intel"), ("GPU", "nvidia"), (1, "intel"), ("2", "pocl"), ("portable", "pocl"),
     ("epyc", "intel"), ("numpy", "numpy"), ("host", "numpy"), ("oclgrind", "oclgrind")],
)  # fmt: skip
def test_specs(monkeypatch: pytest.MonkeyPatch, spec: str | int, key: str) -> None:
    present(monkeypatch, H200, INTEL, POCL, OCLGRIND)
    assert select(spec)[0].key == key


@pytest.mark.parametrize("spec", ["voodoo", "7", "-1", "accelerator"])
def test_an_unknown_device_is_refused_with_the_list(monkeypatch: pytest.MonkeyPatch, spec: str) -> None:
    present(monkeypatch, INTEL, POCL)
    with pytest.raises(NoDeviceError, match=r"0: intel .*1: pocl .*2: numpy .*doctor") as caught:
        select(spec)
    assert repr(spec) in str(caught.value)


def test_the_variable_is_named_when_it_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    present(monkeypatch, INTEL)
    monkeypatch.setenv("CLNET_DEVICE", "voodoo")
    with pytest.raises(NoDeviceError, match=r"^CLNET_DEVICE: "):
        select()


def test_a_device_is_taken_as_it_is() -> None:
    assert select(HOST)[0] is HOST
    with pytest.raises(NoDeviceError, match="NumPy"):
        _ = HOST.context


def test_the_machine_that_runs_this() -> None:
    found = devices()
    assert found[-1] is HOST
    assert len({device.key for device in found}) == len(found)
    for device in found[:-1]:
        assert_plausible(device)


def assert_plausible(device: Device) -> None:
    assert device.kind in ("cpu", "gpu", "accelerator")
    assert device.compute_units >= 1
    assert device.vector_width in (1, 2, 4, 8, 16)
    assert 0 < device.max_alloc <= device.global_memory
    assert device.alignment >= 16
    assert device.key == device.key.lower()
    assert " " not in device.key


def python(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), **variables}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60,
                          check=False)


def test_without_pyopencl_numpy_remains() -> None:
    code = ("import sys; sys.modules['pyopencl'] = None\nfrom clnet.engine.device.devices import *\n"
            "print(select()[0].key, failures())")
    done = python(code, CLNET_DEVICE="")
    assert done.stdout.startswith("numpy ['pyopencl cannot be imported"), done.stderr


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ocl-icd is Linux only")
def test_without_any_platform_numpy_remains(tmp_path: Path) -> None:
    code = "from clnet.engine.device.devices import *\nprint(select()[0].key, len(failures()))"
    done = python(code, CLNET_DEVICE="", OCL_ICD_VENDORS=str(tmp_path / "none.icd"))
    assert done.stdout.split() == ["numpy", "1"], done.stderr


@pytest.mark.skipif(not hasattr(os, "fork") or len(devices()) == 1, reason="needs fork and an OpenCL device")
def test_a_fork_is_refused_instead_of_hanging() -> None:
    code = """
import os
from clnet.engine.device.devices import devices
from clnet.errors import ForkedEngineError
context = devices()[0].context
if os.fork() == 0:
    try:
        devices()[0].context
    except ForkedEngineError as error:
        print(error, flush=True)
    os._exit(0)
os.wait()
"""
    done = python(code)
    assert "spawn" in done.stdout, done.stderr


def test_a_device_may_be_taken_for_a_lesser_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLNET_PROFILE", "local_memory=32768, inline_ptx=0,compute_capability=0")
    (found,) = module._with_keys([H200 | dict(local_memory=49152, inline_ptx=True, compute_capability=90)])
    assert (found.local_memory, found.inline_ptx, found.compute_capability) == (32768, False, 0)
    assert found.name == "NVIDIA H200"


@pytest.mark.parametrize(("runtime", "kind", "target", "lanes"), [
    ("intel", "cpu", "core-avx2", 8), ("intel", "cpu", "corei7", 4), ("intel", "cpu", "skx", 16),
    ("intel", "cpu", "", 16), ("intel", "gpu", "core-avx2", 16), ("pocl", "cpu", "core-avx2", 16)])
def test_lanes_are_those_of_the_processor_that_is_compiled_for(monkeypatch: pytest.MonkeyPatch, runtime: str, kind: str,
                                                               target: str, lanes: int) -> None:
    monkeypatch.setenv(TARGET, target)
    assert compiled_lanes(named(runtime), kind, 16) == lanes


@pytest.mark.parametrize("text", ["local_memory", "local_memory=many", "memory=3", "name=H100", "fp64=-1"])
def test_profiles_that_name_nothing_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"CLNET_PROFILE: expected field=number with one of .*local_memory"):
        module.overrides(text)
