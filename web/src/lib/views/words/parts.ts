/** The four views of the words, what each says about itself, and where its numbers are computed. */
export type PartId = "space" | "row" | "sentences" | "positions";

export interface Part {
  id: PartId;
  title: string;
  says: string[];
  code: string[];
  /** what ran: nothing but a reading of weights, or a pass */
  path: string;
}

export const PARTS: Part[] = [
  {
    id: "space", title: "Space of words",
    says: [
      "Every token has a row of the token table. Two numbers of it would say little, so the rows are laid on a plane: PCA turns them until two axes hold as much of their spread as two can; t-SNE puts those near each other that are neighbours in the table.",
      "The cosine of two rows says how alike their directions are: 1 the same, 0 unrelated. It is measured in all dimensions, so a near word may lie far away on the plane.",
    ],
    code: ["analyse/projections.py", "analyse/tsne.py", "analyse/neighbours.py"], path: "none ran: read from the weights",
  },
  {
    id: "row", title: "One-hot × table = row",
    says: ["A token's number as a vector: as long as the vocabulary, zero everywhere but for a single 1. Times the table this adds up all rows, each times 0, but one: so the product is a row, and a model simply looks it up."],
    code: ["analyse/neighbours.py"], path: "none ran: read from the weights",
  },
  {
    id: "sentences", title: "A word in sentences",
    says: [
      "The word's row is the same in every sentence. Behind each block it has taken something from the words around it: so its vectors part, and the same word in a like sense stays near.",
      "Of a word in several tokens the mean is taken. The plane is spanned by the two axes along which all vectors of the paths differ most.",
    ],
    code: ["analyse/contexts.py", "analyse/projections.py"], path: "reference",
  },
  {
    id: "positions", title: "Positions",
    says: ["What tells the model where a token stands. Attention alone would see a bag of words. In the 2017 paper each place has a row of its own, which is added to the token's row before the first block; what this model does is said at the left."],
    code: ["layers/positions.py", "ops/positions.py"], path: "none ran: read from the weights",
  },
];

export const KINDS: Record<string, { title: string; says: string }> = {
  learned: { title: "Learned positions", says: "a row of weights for every place, trained like all others; beyond the last row the model can't read" },
  sinusoidal: { title: "Sinusoidal positions", says: "sines and cosines of falling frequency, computed and never trained, as in the 2017 paper" },
  "sinusoidal-2d": { title: "Sinusoidal positions in two directions", says: "half of the columns say how far down a patch stands, half how far to the right" },
  relative: { title: "Relative positions", says: "nothing is added to the tokens: a row for every range of distances, a column for every head, added to the scores" },
  rotary: { title: "Rotary positions", says: "nothing is added to the tokens: queries and keys are turned by these angles, a row for every place" },
};
