"""pip's runtimes become visible, the system's stay so, and nothing that others could write is loaded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from importlib import metadata
from pathlib import Path

import pytest

from clnet.engine.device.folders import check_private, private_folder, write_atomically
from clnet.engine.device.pocl import Mend, cpu_flags, known_name, misnamed
from clnet.engine.device.runtimes import MARK, NVIDIA_NODE

ROOT = Path(__file__).resolve().parents[3]
LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ocl-icd is Linux only")
SHOW = """
import json, os
from clnet.engine.device.runtimes import prepare
found = prepare()
assert prepare() is found
print(json.dumps({"folder": found.folder, "sources": found.sources, "notes": found.notes,
                  "was": found.pocl.was, "now": found.pocl.now, "reason": found.pocl.reason,
                  "vendors": os.environ.get("OCL_ICD_VENDORS"), "pocl_cache": os.environ.get("POCL_CACHE_DIR"),
                  "schedule": os.environ.get("DPCPP_CPU_SCHEDULE")}))
"""


def installed(package: str) -> bool:
    try:
        return bool(metadata.version(package))
    except metadata.PackageNotFoundError:
        return False


NVIDIA = ["nvidia.icd"] if NVIDIA_NODE.exists() else []
INTEL = pytest.mark.skipif(not installed("intel-opencl-rt"), reason="intel-opencl-rt is not installed")
POCL = pytest.mark.skipif(not installed("pocl-binary-distribution"), reason="pocl-binary-distribution is not installed")


def run(code: str, **variables: str) -> str:
    """A fresh process: the loader reads its list once."""
    dropped = ("OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH", "POCL_CACHE_DIR", "CLNET_DEVICE", "CLNET_MEND_POCL",
               "DPCPP_CPU_SCHEDULE", "SYCL_CPU_SCHEDULE")
    env = {name: value for name, value in os.environ.items() if name not in dropped}
    env.update(variables, PYTHONPATH=os.pathsep.join([str(ROOT), *sys.path]))
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60,
                          check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def prepared(**variables: str) -> dict[str, object]:
    result: dict[str, object] = json.loads(run(SHOW, **variables))
    return result


@LINUX
@INTEL
def test_intel_is_listed_without_any_variable(tmp_path: Path) -> None:
    code = "from clnet.engine.device.devices import devices; print([d.key for d in devices()])"
    assert "'intel'" in run(code, CLNET_CACHE_DIR=str(tmp_path))


@pytest.mark.parametrize("given, then", [({}, "affinity"), ({"DPCPP_CPU_SCHEDULE": "static"}, "static"),
                                         ({"SYCL_CPU_SCHEDULE": "static"}, None)])
def test_work_items_stay_with_their_core_unless_told_otherwise(given: dict[str, str], then: str | None,
                                                               tmp_path: Path) -> None:
    assert prepared(CLNET_CACHE_DIR=str(tmp_path), **given)["schedule"] == then


@pytest.mark.parametrize("given", [{}, {"DPCPP_CPU_SCHEDULE": "static"}])
def test_a_child_process_makes_that_choice_itself(given: dict[str, str], tmp_path: Path) -> None:
    """Another checkout in it (`clnet bench --against`) may make none; what the user set reaches it."""
    code = """
        from clnet.engine.device.compilers import environment
        from clnet.engine.device.runtimes import prepare
        prepare()
        print(environment().get("DPCPP_CPU_SCHEDULE"))
    """
    said = run(textwrap.dedent(code), CLNET_CACHE_DIR=str(tmp_path), **given)
    assert said.strip() == str(given.get("DPCPP_CPU_SCHEDULE"))


@LINUX
@INTEL
def test_vendors_of_the_user_stay_and_broken_ones_go(tmp_path: Path) -> None:
    vendors = tmp_path / "vendors"
    vendors.mkdir()
    (vendors / "good.icd").write_text("libsomething.so.1\n")
    (vendors / "gone.icd").write_text("/no/such/libgone.so\n")
    found = prepared(CLNET_CACHE_DIR=str(tmp_path / "cache"), OCL_ICD_VENDORS=str(vendors))
    folder = Path(str(found["folder"]))
    assert found["vendors"] == str(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["good.icd", "intel-opencl-rt.icd", *NVIDIA]
    assert (folder / "good.icd").read_text() == "libsomething.so.1\n"
    assert any("libgone.so" in str(note) for note in found["notes"])  # type: ignore[attr-defined]
    check_private(folder)


@LINUX
@INTEL
def test_a_system_wide_intel_is_not_doubled(tmp_path: Path) -> None:
    vendors = tmp_path / "vendors"
    vendors.mkdir()
    (vendors / "intel.icd").write_text("libintelocl.so\n")
    found = prepared(CLNET_CACHE_DIR=str(tmp_path / "cache"), OCL_ICD_VENDORS=str(vendors))
    assert "intel-opencl-rt.icd" not in found["sources"]  # type: ignore[operator]


@LINUX
def test_an_unregistered_nvidia_driver_is_registered(tmp_path: Path) -> None:
    fake = ("from pathlib import Path; from clnet.engine.device import runtimes; "
            "runtimes.NVIDIA_NODE = Path('/dev/null')\n")
    vendors = tmp_path / "vendors"
    vendors.mkdir()
    variables = {"CLNET_CACHE_DIR": str(tmp_path / "cache"), "OCL_ICD_VENDORS": str(vendors)}
    found = json.loads(run(fake + SHOW, **variables))
    assert (Path(found["folder"]) / "nvidia.icd").read_text() == "libnvidia-opencl.so.1\n"
    (vendors / "own.icd").write_text("/dev/../" + str(vendors) + "/libnvidia-opencl.so.1")
    (vendors / "libnvidia-opencl.so.1").write_text("")
    found = json.loads(run(fake + SHOW, **variables))
    assert "nvidia.icd" not in found["sources"]


@LINUX
def test_a_pinned_runtime_is_left_alone(tmp_path: Path) -> None:
    pinned = str(tmp_path / "one.icd")
    found = prepared(CLNET_CACHE_DIR=str(tmp_path), OCL_ICD_VENDORS=pinned)
    assert found["vendors"] == pinned
    assert found["folder"] == ""


@LINUX
@INTEL
def test_a_child_process_inherits(tmp_path: Path) -> None:
    first = prepared(CLNET_CACHE_DIR=str(tmp_path))
    second = prepared(CLNET_CACHE_DIR=str(tmp_path / "other"), OCL_ICD_VENDORS=str(first["folder"]))
    assert second["folder"] == first["folder"]
    assert not (tmp_path / "other").exists()


@LINUX
@INTEL
def test_an_inherited_folder_that_is_gone_is_made_anew(tmp_path: Path) -> None:
    found = prepared(CLNET_CACHE_DIR=str(tmp_path), OCL_ICD_VENDORS=str(tmp_path / (MARK + "gone")))
    assert (Path(str(found["folder"])) / "intel-opencl-rt.icd").exists()


@LINUX
@INTEL
def test_a_folder_that_others_can_write_is_refused(tmp_path: Path) -> None:
    first = Path(str(prepared(CLNET_CACHE_DIR=str(tmp_path))["folder"]))
    first.chmod(0o777)
    second = prepared(CLNET_CACHE_DIR=str(tmp_path))
    assert second["folder"] != str(first)
    assert any("others may write" in str(note) for note in second["notes"])  # type: ignore[attr-defined]
    assert not Path(str(second["folder"])).exists(), "the temporary folder outlived its process"


@LINUX
def test_pocl_gets_a_cache_where_the_usual_one_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert prepared(XDG_CACHE_HOME=str(tmp_path / "file"))["pocl_cache"]
    assert prepared(XDG_CACHE_HOME=str(tmp_path))["pocl_cache"] is None


def test_names_that_llvm_14_knows() -> None:
    avx512 = {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"}
    assert known_name(avx512 | {"avx2", "fma"}) == "skylake-avx512"
    assert known_name((avx512 - {"avx512cd"}) | {"avx2", "fma"}) == "haswell"
    assert known_name({"sse2"}) == ""
    assert Mend("generic", "haswell").done
    assert not Mend("haswell", "haswell").done


def test_names_that_do_not_fit_the_processor() -> None:
    avx512 = {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd", "avx2", "fma"}
    assert "does not know" in misnamed("generic", {"avx2", "fma"})
    assert "without AVX-512" in misnamed("znver3", avx512)
    assert "not be inlined" in misnamed("znver3", {"avx2", "fma"})
    assert "not be inlined" in misnamed("icelake-client", avx512)
    assert misnamed("skylake-avx512", avx512) == misnamed("haswell", {"avx2", "fma"}) == ""
    assert misnamed("ivybridge", {"avx"}) == misnamed("", avx512) == ""


@LINUX
@POCL
def test_mending_pocl(tmp_path: Path) -> None:
    off = prepared(CLNET_CACHE_DIR=str(tmp_path), CLNET_MEND_POCL="0")
    on = prepared(CLNET_CACHE_DIR=str(tmp_path))
    assert off["was"] == off["now"] == ""
    assert "CLNET_MEND_POCL" in str(off["reason"])
    assert on["was"], "PoCL was not asked"
    assert not misnamed(str(on["now"]), cpu_flags()) or "left alone" in str(on["reason"])
    if not misnamed(str(on["was"]), cpu_flags()):
        assert on["now"] == on["was"]


@LINUX
@POCL
def test_pocl_inlines_its_built_ins(tmp_path: Path) -> None:
    code = """
        import numpy as np
        import clnet
        clnet.use("pocl")
        x, w = np.random.default_rng(0).standard_normal((2, 64, 64), np.float32)
        y = (clnet.tensor(x) @ clnet.tensor(w)).numpy()
        assert np.abs(y - x @ w).max() < 1e-4"""
    mend = prepared(CLNET_CACHE_DIR=str(tmp_path))
    run(textwrap.dedent(code), CLNET_CACHE_DIR=str(tmp_path / "clnet"), POCL_CACHE_DIR=str(tmp_path))
    kernels = list(tmp_path.rglob("matmul.so"))
    assert kernels
    if not misnamed(str(mend["now"]), cpu_flags()):
        assert not any(b"_cl_vload" in file.read_bytes() or b"_cl_vstore" in file.read_bytes() for file in kernels)


def test_private_folder_and_atomic_write(tmp_path: Path) -> None:
    folder = private_folder(tmp_path / "mine")
    write_atomically(folder / "a", b"one")
    write_atomically(folder / "a", b"two")
    assert (folder / "a").read_bytes() == b"two"
    assert [path.name for path in folder.iterdir()] == ["a"]
    if os.name == "posix":
        assert folder.stat().st_mode & 0o777 == 0o700
        (tmp_path / "link").symlink_to(folder)
        with pytest.raises(OSError, match="is a link"):
            check_private(tmp_path / "link")


@LINUX
@INTEL
def test_where_no_folder_takes_a_cache_everything_runs(tmp_path: Path) -> None:
    """Containers with a file system that is read only: nothing is kept, and nobody is told of PyOpenCL's data base."""
    taken = tmp_path / "cache"
    taken.write_text("a file, where folders are wanted")
    code = "import clnet; clnet.use('intel'); print((clnet.tensor([1.0, 2.0]) + 1).numpy().tolist())"
    assert "[2.0, 3.0]" in run(code, XDG_CACHE_HOME=str(taken), CLNET_CACHE_DIR=str(taken), CLNET_COMPILERS="0")


@LINUX
def test_a_list_of_runtimes_that_is_not_there_is_what_doctor_names(tmp_path: Path) -> None:
    vendors = str(tmp_path / "gone")
    code = "from clnet.workbench.doctor import report; print(report())"
    assert f"no OpenCL device: OCL_ICD_VENDORS={vendors} is not there" in run(code, OCL_ICD_VENDORS=vendors)
