/** Short names for the generated types. */
import type { components } from "./schema";

type Schemas = components["schemas"];

/** The server writes every field of an answer, also those that a question may leave out. */
type Whole<T> = T extends string | number | boolean | null ? T : { [K in keyof T]-?: Whole<Exclude<T[K], undefined>> };

export type Axis = Whole<Schemas["Axis"]>;
export type Matrix = Whole<Schemas["Matrix"]>;
export type Step = Whole<Schemas["Step"]>;
export type Operation = Step["operation"];
export type RailNode = Whole<Schemas["Node"]>;
export type Token = Whole<Schemas["Token"]>;
export type PictureInfo = Whole<Schemas["Picture"]>;
export type Chance = Whole<Schemas["Chance"]>;
export type Prediction = Whole<Schemas["Prediction"]>;
export type ModelCard = Whole<Schemas["ModelCard"]>;
export type Pass = Whole<Schemas["Pass"]>;
export type AttentionKind = Whole<Schemas["AttentionKind"]>;
export type PictureOffered = Whole<Schemas["PictureOffered"]>;
export type PictureSet = Whole<Schemas["PictureSet"]>;
export type PictureKept = Whole<Schemas["PictureKept"]>;
export type Inputs = Schemas["Inputs"];
export type Change = Schemas["Change"];
