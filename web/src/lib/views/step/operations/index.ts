/** Which drawing belongs to which operation. */
import type { Component } from "svelte";
import type { Operation } from "../../../api/types";
import type { Cell } from "../../../math/grid";
import type { Loaded } from "../read";
import Choose from "./Choose.svelte";
import Concat from "./Concat.svelte";
import Lookup from "./Lookup.svelte";
import Norm from "./Norm.svelte";
import Picture from "./Picture.svelte";
import Pointwise from "./Pointwise.svelte";
import Product from "./Product.svelte";
import Rows from "./Rows.svelte";
import Softmax from "./Softmax.svelte";
import Tokens from "./Tokens.svelte";

export interface Drawn {
  read: Loaded;
  cell: Cell;
  width: number;
  onchoose: (cell: Cell) => void;
}

export const DRAWINGS: Record<Operation, Component<Drawn>> = {
  tokens: Tokens, lookup: Lookup, pixels: Picture, patches: Picture, product: Product, scale: Pointwise, add: Pointwise,
  mask: Pointwise, softmax: Softmax, norm: Norm, rms: Norm, activation: Pointwise, concat: Concat, join: Rows, pool: Rows,
  choose: Choose,
};
