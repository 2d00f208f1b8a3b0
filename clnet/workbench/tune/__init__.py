"""Numbers of kernels: the search for them, and one of them changed by hand. `clnet.tune`:

    tunables("NN 64x784x512")                which numbers the kernel of a call takes, with their values here
    trial("NN 64x784x512", tile=(8, 3))      one changed: what becomes of the program, its time in turn with the present
    search("NN 64x784x512", budget=20)       what `clnet tune` finds for the call
    calls(trainer)                           the calls of a step, for those three
    found()                                  what was kept on this machine, with its gains; undo(entry) takes it back
"""

from ...names import offer

__all__ = offer(__name__, {"call": "Call calls", "kept": "found", "trials": "search trial tunables undo"})
