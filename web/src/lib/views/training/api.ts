/** What Training asks the server: recipes and jobs, runs, one update opened. */
import { get, post, query } from "../../api/client";
import type { components } from "../../api/schema";

type Schemas = components["schemas"];
type Told<T> = T extends string | number | boolean | null ? T : { [K in keyof T]-?: Told<Exclude<T[K], undefined>> };

export type JobList = Told<Schemas["Jobs"]>;
export type RecipeCard = Told<Schemas["RecipeCard"]>;
export type Job = Told<Schemas["Job"]>;
export type JobTold = Told<Schemas["JobTold"]>;
export type JobState = Job["state"];
export type MetricLines = Told<Schemas["MetricLines"]>;
export type Samples = Told<Schemas["Samples"]>;
export type SampleTold = Told<Schemas["SampleTold"]>;
export type RunCard = Told<Schemas["RunCard"]>;
export type RunMetrics = Told<Schemas["RunMetrics"]>;
export type StepTold = Told<Schemas["StepTold"]>;
export type BatchRow = Told<Schemas["BatchRow"]>;
export type WeightNorms = Told<Schemas["WeightNorms"]>;
export type StepWanted = Schemas["StepWanted"];

const named = (name: string) => encodeURIComponent(name);

export const listJobs = () => get<JobList>("jobs");
export const startJob = (recipe: string, changes: string[], name: string | null, quick: boolean) => post<JobTold>("jobs", { recipe, changes, name, quick });
export const getJob = (name: string) => get<JobTold>(`jobs/${named(name)}`);
export const jobMetrics = (name: string, after: number, mark: string | null) => get<MetricLines>(`jobs/${named(name)}/metrics?${query({ after, mark })}`);
export const jobSamples = (name: string) => get<Samples>(`jobs/${named(name)}/samples`);
export const stopJob = (name: string) => post<JobTold>(`jobs/${named(name)}/stop`, {});
export const resumeJob = (name: string) => post<JobTold>(`jobs/${named(name)}/resume`, {});
export const listRuns = () => get<RunCard[]>("runs");
export const runMetrics = (name: string) => get<RunMetrics>(`runs/${named(name)}/metrics`);
export const openStep = (name: string, wanted: StepWanted, signal?: AbortSignal) => post<StepTold>(`runs/${named(name)}/step`, wanted, signal);
