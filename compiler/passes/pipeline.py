"""All passes in the order in which they run."""

from __future__ import annotations

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
from compiler.passes.reduce_strength import ReduceStrength
from compiler.passes.remove_dead import RemoveDead
from compiler.passes.remove_identities import RemoveIdentities
from compiler.passes.skip_expands import SkipExpands

# First what hides patterns (dead users, no-ops, copies), then patterns, then constants into
# weights. Biases join before scales, which pass only through matrix operators; what a scale or a
# normalisation frees to follow its operator directly joins in the second round.
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
    FuseBias(),
    FuseBatchNorm(),
    FoldScales(),
    FuseBias(),
)


def optimize(graph: Graph) -> Graph:
    """The graph with all passes applied."""
    for step in PIPELINE:
        graph = step.run(graph).graph
    return graph
