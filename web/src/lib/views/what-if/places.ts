/** At which place of the input the model is asked: what the address says, else what the model itself answers at. */
import type { Pass, Prediction, Token } from "../../api/types";

/** The tokens behind which the model says something; null where it answers once for the whole input. */
export function askedTokens(pass: Pass): Token[] | null {
  if (pass.tokens.target) return pass.tokens.target;
  return pass.predictions.some((one) => one.of === "next" || one.of === "word") ? (pass.tokens.tokens ?? null) : null;
}

/** Null leaves it to the server. A BERT is asked at its first [MASK]; where it says a word at every place, there is none. */
export function askedPlace(pass: Pass, said: string | null): number | null {
  const tokens = askedTokens(pass);
  if (!tokens) return null;
  const number = said !== null && /^\d+$/.test(said) ? Number(said) : null;
  if (number !== null && number < tokens.length) return number;
  const words = pass.predictions.filter((one) => one.of === "word");
  if (!words.length) return null;
  return words.length < tokens.length ? words[0]!.place : Math.floor(tokens.length / 2);
}

/** The most probable word at a place, if the pass tells it. */
export function saidAt(pass: Pass, place: number): Prediction | null {
  return pass.predictions.find((one) => one.place === place && one.of !== "follows") ?? null;
}
