"""Which kernel serves a call, with which tiles and grid."""
