"""What is read off a trace: who looked at whom, what an answer rests on, what each block would have said, what if.

`plot` draws attention in notebooks; its `attention` is not listed here, because a file of this room has that name.
"""

from .attention import AttentionMap, AttentionRow, attention_maps, over_pixels, patch_maps, patch_names
from .compare import Answer, Comparison, Outcome, compare
from .contexts import Occurrence, WordVectors, word_vectors
from .distance import attention_distances, patch_centres, pixel_distance, token_distance
from .filtered import filtered_picture
from .gradients import Relevance, gradient_rollout
from .heads import SCORES, BestHead, HeadScore, best_head, head_scores
from .interventions import (
    Intervention,
    attention_temperature,
    edit_token,
    heads_off,
    no_positions,
    patch,
    together,
)
from .lens import Lens, logit_lens
from .neighbours import Neighbour, Row, analogy, nearest_words, one_hot_row, static_vector, token_table
from .plot import AttentionFigures, Figure
from .projections import PCA, pca
from .rollout import rollout
from .stream import residual_stream, stream_sites
from .tsne import TSNE, tsne

__all__ = [
    "PCA",
    "SCORES",
    "TSNE",
    "Answer",
    "AttentionFigures",
    "AttentionMap",
    "AttentionRow",
    "BestHead",
    "Comparison",
    "Figure",
    "HeadScore",
    "Intervention",
    "Lens",
    "Neighbour",
    "Occurrence",
    "Outcome",
    "Relevance",
    "Row",
    "WordVectors",
    "analogy",
    "attention_distances",
    "attention_maps",
    "attention_temperature",
    "best_head",
    "compare",
    "edit_token",
    "filtered_picture",
    "gradient_rollout",
    "head_scores",
    "heads_off",
    "logit_lens",
    "nearest_words",
    "no_positions",
    "one_hot_row",
    "over_pixels",
    "patch",
    "patch_centres",
    "patch_maps",
    "patch_names",
    "pca",
    "pixel_distance",
    "residual_stream",
    "rollout",
    "static_vector",
    "stream_sites",
    "together",
    "token_distance",
    "token_table",
    "tsne",
    "word_vectors",
]
