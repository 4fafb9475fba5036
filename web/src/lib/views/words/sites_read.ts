/** The weights and sites that a view reads, by the names that `ch.record` and the checkpoint use. */
import type { ModelCard } from "../../api/types";
import type { Side } from "./api";
import type { PartId } from "./parts";

export function sitesRead(card: Pick<ModelCard, "takes" | "family">, part: PartId, side: Side): string[] {
  const input = card.takes.includes("target") ? side : "input";
  const stack = card.takes.includes("target") ? (side === "target" ? "decoder" : "encoder") : card.family === "gpt" ? "decoder" : "encoder";
  if (part === "positions") return card.family === "t5" ? [`${stack}_bias.weight`] : [`${input}.positions`];
  const table = `${input}.tokens.weight`;
  return part === "sentences" ? [table, `${stack}.blocks.*.after_feed_forward`] : [table];
}
