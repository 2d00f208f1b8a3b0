"""Kernels that walk over time: recurrent cells and connectionist temporal classification."""

from . import ctc, recurrent, recurrent_gpu
