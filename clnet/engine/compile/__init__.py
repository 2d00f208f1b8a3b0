"""From recorded tensors to a plan of OpenCL kernels (`pipeline.compiled`). The words, in the order of their making:

node        one value of a graph: a leaf, an op that was recorded, or what that was lowered to      node, graph
base        what a node reads in the end, below views: a value in memory or in registers            reads
twin        the op of a pair that one kernel computes together, as a loss and its gradient          twins
fusion      nodes that are computed together: pointwise ones around a core (a fold, a kernel)       fusion, schedule
home        the fusion that computes a node; what is cheap is computed again where it is needed     schedule
stage       one kernel of a hand-written file, as an op asks for it; some ops ask for several       kernels.stage
source      OpenCL C of one kernel with its geometry: grid, and the work-group, called group        source, maps, folds
code        the sources of a fusion, and what they read                                             sources
structure   all that the sources of a fusion are written from; those of equal ones are written once  structure
part        a node that is computed where it belongs in a concatenation                             fusion, memory_map
address     where a value lives: a leaf's buffer, a result's, or a place in the arena               layout
arena       the memory that values between inputs and results share                                 layout, memory_map
launch      one kernel with its arguments, enqueued once; a fusion becomes one, or one a stage      launches, plan
plan        launches in order and what memory they need; knows no buffers, runs many times          plan

Beyond this package: a `BoundPlan` is a plan with the kernels of one thread, a `Replay` one with its buffers too; a step
is what training does with a batch, never a launch.
"""
