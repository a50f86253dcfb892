"""All passes in the order in which they run."""

from __future__ import annotations

from itertools import cycle

from compiler.ir.graph import Graph
from compiler.passes.base import Pass
from compiler.passes.eliminate_common import EliminateCommon
from compiler.passes.fold_scales import FoldScales
from compiler.passes.fuse_activations import FuseActivations
from compiler.passes.fuse_batchnorm import FuseBatchNorm
from compiler.passes.fuse_bias import FuseBias
from compiler.passes.fuse_layernorm import FuseLayerNorm
from compiler.passes.lower_gathers import LowerGathers
from compiler.passes.merge_pads import MergePads
from compiler.passes.merge_views import MergeViews
from compiler.passes.quantization import Quantization
from compiler.passes.reduce_strength import ReduceStrength
from compiler.passes.remove_dead import RemoveDead
from compiler.passes.remove_identities import RemoveIdentities
from compiler.passes.skip_expands import SkipExpands

# First what hides patterns (dead readers, no-ops, copies), then patterns, then constants into
# weights: biases before scales, which pass only through matrix operators.
PIPELINE: tuple[Pass, ...] = (
    RemoveDead(),
    LowerGathers(),
    RemoveIdentities(),
    SkipExpands(),
    MergeViews(),
    EliminateCommon(),
    FuseLayerNorm(),
    FuseActivations(),
    ReduceStrength(),
    MergePads(),
    Quantization(),
    FuseBias(),
    FuseBatchNorm(),
    FoldScales(),
)


def optimize(graph: Graph) -> Graph:
    """The graph after rounds of all passes, until each has seen it and changed nothing.

    What one pass folds away may bring together what an earlier one looks for: a bias behind a
    scale, a transpose behind a view. A pass finds nothing in what it just made, so that a round
    ends with the pass that was the last to change something.
    """
    unchanged = 0
    for step in cycle(PIPELINE):
        result = step.run(graph)
        graph, unchanged = result.graph, 1 if result.changed else unchanged + 1
        if unchanged == len(PIPELINE):
            break
    return graph
