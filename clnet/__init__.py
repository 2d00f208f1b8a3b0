"""Train neural networks on any OpenCL device, from a notebook, with proof of what really runs where.

Names beyond the core load on first use, so that `import clnet` costs nothing that a script does not need.
"""

from __future__ import annotations

from .collector import paused

with paused(keeps=True):
    from . import engine, ops
    from .core.autodiff import gradients
    from .core.precision import autocast, precision, set_precision
    from .core.recording import eager
    from .core.state import Generator, Parameter, Variable
    from .core.tensor import Tensor, realize, tensor
    from .names import offer

__version__ = "0.1.0"

_CORE = ("Generator", "Parameter", "Tensor", "Variable", "autocast", "eager", "engine", "gradients", "ops", "precision",
         "realize", "set_precision", "tensor")
__all__ = [*_CORE, *offer(__name__, {
    "clnet.engine": "use on current",
    "clnet.engine.device.devices": "Device devices",
    "clnet.engine.reference": "NumpyEngine",
    "clnet.engine.record": "Recorded",
    "clnet.engine.explain": "cache empty_cache explain memory",
    "clnet.engine.profiling": "profile",
    "clnet.engine.session": "session",
    "clnet.facade": "Engine",
    "clnet.init": "seed",
    "clnet.model": "Graph Input Model Sequential load",
    "clnet.train": "Trainer data",
    "clnet.workbench": "explore tune",
    "clnet.workbench.check": "check",
    "clnet.workbench.magics": "load_ipython_extension unload_ipython_extension",
    "clnet.errors": "ClnetError ConfigError ShapeError DTypeError IndexingError DataError NoDeviceError "
                    "CheckpointError NonFiniteError KernelBuildError OutOfDeviceMemory DeviceLost",
}, "augment errors interpret layers losses metrics models optimizers sklearn train workbench"), "__version__"]
