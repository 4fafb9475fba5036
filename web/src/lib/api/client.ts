/** What the server is asked, in one place. Every refusal becomes a Refusal with the server's own words. */
import type { Change, Inputs, ModelCard, Pass, PictureKept, PictureOffered, PictureSet } from "./types";

export class Refusal extends Error {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
  }
}

/** Nothing went wrong: a shared page does not hold this, and says why. */
export class LeftOut extends Refusal {
  constructor(message: string) {
    super(message, 0);
  }
}

const BASE = "api";

function token(): string {
  return document.querySelector<HTMLMetaElement>('meta[name="clearhead-token"]')?.content ?? "";
}

async function words(response: Response): Promise<string> {
  const text = await response.text();
  try {
    const said: unknown = JSON.parse(text);
    if (said && typeof said === "object" && "problem" in said) return String(said.problem);
  } catch {
    // not JSON: the status has to do
  }
  return `The server answered ${response.status} ${response.statusText}. Its window may say why.`;
}

export async function ask(path: string, init: RequestInit = {}): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(`${BASE}/${path}`, init);
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new Refusal("The studio's server does not answer. Start it again with `clearhead studio`, then reload.", 0);
  }
  if (!response.ok) throw new Refusal(await words(response), response.status);
  return response;
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await ask(path, { signal })).json() as Promise<T>;
}

/** For everything that changes something on the server: the token shows that this page asks. */
export async function post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  const headers = { "Content-Type": "application/json", "X-Clearhead-Token": token() };
  return (await ask(path, { method: "POST", headers, body: JSON.stringify(body), signal })).json() as Promise<T>;
}

export function query(parts: Record<string, string | number | null | undefined>): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(parts)) if (value !== null && value !== undefined) search.set(name, String(value));
  return search.toString();
}

export const models = () => get<ModelCard[]>("models");

export const runPass = (model: string, inputs: Partial<Inputs>, changes: Change[] = [], signal?: AbortSignal) =>
  post<Pass>("passes", { model, inputs, changes }, signal);

export const pictureOffers = (set: string, part: string, count: number, offset: number) =>
  get<PictureOffered[]>(`pictures?${query({ set, part, count, offset })}`);

export const pictureSets = () => get<PictureSet[]>("sets");

export const pictureAddress = (picture: string) => `${BASE}/pictures/${picture.split("/").map(encodeURIComponent).join("/")}`;

export async function upload(file: File): Promise<string> {
  const headers = { "Content-Type": file.type || "application/octet-stream", "X-Clearhead-Token": token(), "X-Name": encodeURIComponent(file.name) };
  const response = await ask("pictures", { method: "POST", headers, body: file });
  return ((await response.json()) as PictureKept).picture;
}

export async function sourceText(file: string): Promise<string> {
  return (await ask(`source?${query({ file })}`)).text();
}
