/** Two models on one input: who may be compared with whom, how they differ, where their attention is walked through. */
import type { AttentionKind, ModelCard, Pass, Step } from "../../api/types";
import { attentionOf } from "../../state/walk";

/** Those that take the same input; the same family first, then trained ones as the first one is. */
export function partners(shelf: readonly ModelCard[], left: ModelCard): ModelCard[] {
  const rank = (card: ModelCard) => Number(card.family !== left.family) * 2 + Number(card.random !== left.random);
  return shelf.filter((card) => card.problem === null && card.id !== left.id && card.takes.join() === left.takes.join()).sort((a, b) => rank(a) - rank(b));
}

/** Where each departs from the 2017 paper and the other does not. */
export function departures(left: Pass, right: Pass): { left: string[]; right: string[]; both: string[] } {
  const [a, b] = [left, right].map((pass) => [...new Set(pass.steps.flatMap((step) => step.departs))]) as [string[], string[]];
  return { left: a.filter((one) => !b.includes(one)), right: b.filter((one) => !a.includes(one)), both: a.filter((one) => b.includes(one)) };
}

/** The step that makes the weights of a layer's attention. */
export function weightsStep(pass: Pass, kind: AttentionKind["kind"], layer: number): Step | null {
  const here = (step: Step) => {
    const found = attentionOf(pass, step.part);
    return found !== null && found.kind.kind === kind && found.layer === layer;
  };
  return pass.steps.find((step) => step.operation === "softmax" && here(step)) ?? pass.steps.find(here) ?? null;
}

/** Whether both cut the input into the same tokens. */
export function sameTokens(left: Pass, right: Pass): boolean {
  const texts = (pass: Pass) => JSON.stringify(Object.entries(pass.tokens).map(([name, tokens]) => [name, tokens.map((token) => token.text)]));
  return texts(left) === texts(right);
}

/** The tokens at which can be asked. */
export function asked(pass: Pass) {
  return pass.tokens.target ?? pass.tokens.tokens ?? [];
}
