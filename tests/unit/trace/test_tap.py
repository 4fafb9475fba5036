"""A tap is the identity, in eager code and in compiled code, unless a recorder is active in this thread."""

import threading

import torch
from torch import nn

from clearhead.trace import Recorder, recording, tap


class Doubled(nn.Module):
    def forward(self, x):
        return tap("doubled", 2 * x)


def test_a_tap_gives_back_the_very_tensor_when_nothing_records():
    x = torch.randn(3)
    assert tap("anything", x) is x
    assert not recording()


def test_recording_is_known_to_its_own_thread_alone():
    seen = []
    with Recorder(Doubled(), sites=[]):
        assert recording()
        other = threading.Thread(target=lambda: seen.append(recording()))
        other.start()
        other.join()
    assert seen == [False]
    assert not recording()


def test_a_tap_is_nothing_while_compiling():
    graphs = []

    def keep(graph, example):
        graphs.append(graph)
        return graph

    compiled = torch.compile(Doubled(), fullgraph=True, backend=keep)
    assert torch.equal(compiled(torch.ones(3)), 2 * torch.ones(3))
    calls = [node for node in graphs[0].graph.nodes if node.op.startswith("call")]
    assert len(graphs) == 1
    assert len(calls) == 1
