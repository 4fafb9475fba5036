"""Fine-tuning the real MiniLM beside transformers: same files, same batches, same recipe, several seeds.

    python -m benchmarks.finetuning [finetune-sst2] [--seeds 3] [--first 0] [--who both] [--quick] [--device cpu] [k=v]
    python -m benchmarks.finetuning finetune-sst2 model=runs/finetune-sst2-reviews/first optimiser.rate=5e-5

Ours is `clearhead train RECIPE`. The peer is transformers' BertForSequenceClassification from the same folder, given
the same batches in the same order, torch's AdamW with decay on matrices as its Trainer has it (everything but biases
and norms), the same rates, warm-up, clipping and precision; its new head is drawn from the same seed. Both keep the
weights that are best on held-out training data (its accuracy is the row to choose a rate by), and are judged on the
set's test part once, at the end.
"""

import argparse
import copy
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from clearhead.errors import ClearheadError
from clearhead.models.registry import as_device
from clearhead.runs.places import located
from clearhead.train.labelled import LabelledTask
from clearhead.train.loop import Run, Watch, train
from clearhead.train.schedule import Schedule
from clearhead.train.scores import accuracy, f1

from . import peers, table
from .stages import one_stage

Contest = Callable[[Run, LabelledTask], dict[str, float]]


def ours(run: Run, task: LabelledTask) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        figures = train(run, Path(folder), Watch(), task).figures
    return {"held out": figures["valid"]["accuracy"], **{name: figures["test"][name] for name in ("accuracy", "f1")}}


class Theirs:
    """transformers' model under the same recipe."""

    def __init__(self, run: Run, task: LabelledTask, device: torch.device) -> None:
        peers.declare_vision_operators()
        from transformers import BertForSequenceClassification  # pyright: ignore[reportMissingImports]

        self.run, self.task, self.device = run, task, device
        torch.manual_seed(run.settings.seed)
        folder = located(run.spec.model)
        self.model: Any = BertForSequenceClassification.from_pretrained(folder, num_labels=len(task.classes)).to(device)
        made = run.settings.optimiser
        plain = [w for name, w in self.model.named_parameters() if "bias" in name or "LayerNorm" in name]
        decayed = [w for name, w in self.model.named_parameters() if "bias" not in name and "LayerNorm" not in name]
        groups = [{"params": decayed, "weight_decay": made.weight_decay}, {"params": plain, "weight_decay": 0.0}]
        self.optimiser = torch.optim.AdamW(groups, lr=made.rate, betas=made.betas, eps=made.eps, fused=True)
        self.steps = run.settings.updates(task.batches_per_epoch(run.settings.batching))
        self.validate_every = run.settings.validates_every(task.batches_per_epoch(run.settings.batching))

    def logits(self, text: Any) -> torch.Tensor:
        mask = torch.arange(text.ids.shape[1], device=self.device) < text.lengths[:, None]
        wide = torch.autocast(self.device.type, torch.bfloat16, enabled=self.run.settings.precision == "bf16")
        with wide:
            return self.model(text.ids, attention_mask=mask.long(), token_type_ids=text.segments).logits.float()

    def judged(self, part: str) -> dict[str, float]:
        self.model.eval()
        truths = self.task.dataset.parts[part].labels
        answers = torch.empty_like(truths)
        with torch.no_grad():
            for chosen in self.task.rows[part].longest_first(64):
                answers[chosen] = self.logits(self.task.batch_of(part, chosen, self.device).text).argmax(-1).cpu()
        self.model.train()
        return {"accuracy": accuracy(answers, truths), "f1": f1(answers, truths)}

    def trained(self) -> dict[str, float]:
        settings, best = self.run.settings, (-1.0, None)
        schedule = Schedule(steps=self.steps, name=settings.schedule, warmup=min(settings.warmup, self.steps))
        self.model.train()
        for step in range(self.steps):
            for group in self.optimiser.param_groups:
                group["lr"] = settings.optimiser.rate * schedule.factor(step)
            batch = self.task.batch(step, settings.batching, 0, 1, self.device)
            F.cross_entropy(self.logits(batch.text), batch.labels).backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), settings.optimiser.clip or float("inf"))
            self.optimiser.step()
            self.optimiser.zero_grad()
            if (step + 1) % self.validate_every == 0 or step + 1 == self.steps:
                figure = self.judged("valid")["accuracy"]
                if figure > best[0]:
                    best = figure, copy.deepcopy(self.model.state_dict())
        self.model.load_state_dict(best[1])
        return {"held out": best[0], **self.judged("test")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", nargs="?", default="finetune-sst2")
    parser.add_argument("changes", nargs="*", help="key=value")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--who", choices=("both", "clearhead", "transformers"), default="both")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--device", default="auto")
    asked = parser.parse_intermixed_args()
    device = as_device(asked.device)
    contestants: dict[str, Contest] = {"clearhead": ours, "transformers": lambda r, t: Theirs(r, t, device).trained()}
    if asked.who != "both":
        contestants = {asked.who: contestants[asked.who]}
    rows: dict[str, list[tuple[dict[str, float], float]]] = {name: [] for name in contestants}
    seeds = range(asked.first, asked.first + asked.seeds)
    for seed in seeds:
        run = one_stage(asked.recipe, [], [f"seed={seed}", f"device={device}", *asked.changes], asked.quick)
        task = run.spec.open()
        assert isinstance(task, LabelledTask), f"{asked.recipe} is not about labelled texts"
        for name, contest in contestants.items():
            begun = time.perf_counter()
            figures = contest(run, task)
            rows[name].append((figures, time.perf_counter() - begun))
            print(f"seed {run.settings.seed}, {name}: {figures}", flush=True)
    lines = []
    for name, found in rows.items():
        for figure in ("held out", "accuracy", "f1"):
            values = [100 * figures[figure] for figures, _ in found]
            lines.append((name, figure, f"{statistics.mean(values):.2f}", *(f"{value:.2f}" for value in values)))
        print(f"{name}: {statistics.mean(seconds for _, seconds in found):.0f} s a run")
    print(table(("who", "figure", "mean", *(f"seed {seed}" for seed in seeds)), lines))


if __name__ == "__main__":
    try:
        main()
    except ClearheadError as problem:
        sys.exit(str(problem))
