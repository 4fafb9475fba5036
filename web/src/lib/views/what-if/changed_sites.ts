/** The sites at which the pass goes on with another value. */
import type { Change, Pass } from "../../api/types";

export function sitesOf(changes: readonly Change[], pass: Pick<Pass, "model" | "tokens">): string[] {
  return [...new Set(changes.flatMap((change) => sitesOfOne(change, pass)))];
}

function sitesOfOne(change: Change, pass: Pick<Pass, "model" | "tokens">): string[] {
  const both = pass.tokens.source !== undefined;
  const inputs = both ? ["source", "target"] : ["input"];
  const block = `${change.stack === "cross" ? "decoder" : change.stack}.blocks.${change.layer ?? "*"}`;
  const part = change.stack === "cross" ? "cross" : "attention";
  switch (change.kind) {
    case "heads-off":
      return [`${block}.${part}.output`];
    case "temperature":
      return [`${block}.${part}.${pass.model.family === "t5" && part === "attention" ? "biased" : "scaled"}`];
    case "no-positions":
      return pass.model.family === "t5" ? ["encoder.blocks.*.attention.biased", "decoder.blocks.*.attention.biased"] : inputs.map((name) => `${name}.positions`);
    case "tokens":
      return [`${both ? (change.stack === "decoder" ? "target" : "source") : "input"}.ids`];
    default:
      return [change.site ?? ""];
  }
}
