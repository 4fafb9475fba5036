/** What Compare asks the server: two models on one input. Runs and their curves are Training's. */
import { post } from "../../api/client";
import type { components } from "../../api/schema";
import type { Inputs } from "../../api/types";

type Schemas = components["schemas"];
type Told<T> = T extends string | number | boolean | null ? T : { [K in keyof T]-?: Told<Exclude<T[K], undefined>> };

export type Compared = Told<Schemas["Compared"]>;
export type NamedOutcome = Told<Schemas["NamedOutcome"]>;

export const COUNT = 12;

export function compareTwo(left: string, right: string, inputs: Partial<Inputs>, place: number | null): Promise<Compared> {
  const side = (model: string) => ({ model, inputs, changes: [] });
  return post<Compared>("compare", { left: side(left), right: side(right), place, count: COUNT });
}
