/** Words of a typed text that can be masked and restored: a [MASK] takes a word's place, and the count stays. */
import type { Token } from "../../api/types";

export interface Word {
  start: number;
  end: number;
  text: string;
}

export const MASK = "[MASK]";

export function wordsOf(text: string): Word[] {
  return [...text.matchAll(/\[MASK\]|[\p{L}\p{N}\p{M}_]+|\S/gu)].map((found) => ({ start: found.index, end: found.index + found[0].length, text: found[0] }));
}

const isMask = (word: Word) => word.text === MASK || /^_{3,}$/.test(word.text);

/** The server counts letters, the browser halves of them where a letter lies outside of the first plane. */
export function placeIn(text: string, letters: number): number {
  return [...text].slice(0, letters).join("").length;
}

export interface Piece {
  /** of the tokens; null: what stands between two of them */
  token: number | null;
  text: string;
}

/** A text as its tokens cut it; null where they do not follow each other in it. Places count letters, as the server does. */
export function cutBy(text: string, tokens: Token[]): Piece[] | null {
  const letters = [...text];
  const pieces: Piece[] = [];
  let end = 0;
  for (const [n, token] of tokens.entries()) {
    if (token.start === null || token.end === null) {
      if (token.special) continue;
      return null;
    }
    if (token.start < end) return null;
    if (token.start > end) pieces.push({ token: null, text: letters.slice(end, token.start).join("") });
    pieces.push({ token: n, text: letters.slice(token.start, token.end).join("") });
    end = token.end;
  }
  return end < letters.length ? [...pieces, { token: null, text: letters.slice(end).join("") }] : pieces;
}

/** Whether `was` is the same text with words where `text` has masks. */
export function sameButMasks(text: string, was: string): boolean {
  const [now, before] = [wordsOf(text), wordsOf(was)];
  return now.length === before.length && now.every((word, n) => isMask(word) || word.text === before[n]!.text);
}

export interface Toggled {
  text: string;
  /** the text without the masks that were put in; null: none is left */
  was: string | null;
}

/** Mask the word at an offset, or restore it; null: nothing is known of what stood there. */
export function toggled(text: string, was: string | null, offset: number): Toggled | null {
  const words = wordsOf(text);
  const n = words.findIndex((word) => word.start <= offset && offset < word.end);
  const word = words[n];
  if (!word) return null;
  const whole = was !== null && sameButMasks(text, was) ? was : text;
  const original = wordsOf(whole)[n]!;
  if (isMask(word) && isMask(original)) return null;
  const next = text.slice(0, word.start) + (isMask(word) ? original.text : MASK) + text.slice(word.end);
  return { text: next, was: next === whole ? null : whole };
}

/** Which of two sentences a token belongs to: the second begins behind the first mark that nobody typed. */
export function sentenceOf(tokens: Token[], place: number): "text" | "second" {
  const mark = tokens.findIndex((token, n) => n > 0 && token.special && token.start === null);
  return mark >= 0 && place > mark ? "second" : "text";
}

/** The first token of the word that a token is part of. */
export function firstOf(tokens: Token[], place: number, text: string): number {
  const start = tokens[place]?.start;
  if (start === null || start === undefined) return place;
  const word = wordsOf(text).find((one) => one.start <= placeIn(text, start) && placeIn(text, start) < one.end);
  let first = place;
  while (word && first > 0 && (tokens[first - 1]!.start ?? -1) >= 0 && placeIn(text, tokens[first - 1]!.start!) >= word.start && sentenceOf(tokens, first - 1) === sentenceOf(tokens, place)) first--;
  return first;
}
