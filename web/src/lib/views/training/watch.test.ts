import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { JobTold, MetricLines } from "./api";
import { Watch } from "./watch.svelte";

const api = vi.hoisted(() => ({ getJob: vi.fn(), jobMetrics: vi.fn(), jobSamples: vi.fn() }));
vi.mock("./api", () => api);

const job = { name: "one", state: "running", step: 3, active: 0 } as JobTold;
const all = [1, 2, 3].map((step) => ({ step, loss: 1 / step }));

/** What the server would say: every line behind the place that was asked for. */
const told = (after: number): MetricLines => ({ lines: all.slice(after), next: all.length, mark: "a", again: false, more: false });

beforeEach(() => {
  vi.useFakeTimers();
  api.getJob.mockResolvedValue(job);
  api.jobSamples.mockResolvedValue({ samples: [], part: null, saved: null, note: "none yet" });
});

afterEach(() => {
  vi.useRealTimers();
  vi.resetAllMocks();
});

it("takes every line once, though something was asked of the job while an answer was under way", async () => {
  const answers: (() => void)[] = [];
  api.jobMetrics.mockImplementation((_: string, after: number) => new Promise((done) => answers.push(() => done(told(after)))));
  const watch = new Watch();
  const end = watch.follow("one");
  await vi.advanceTimersByTimeAsync(0);
  watch.hurry(job);
  await vi.advanceTimersByTimeAsync(600);
  expect(answers).toHaveLength(2);
  for (const answer of answers) answer();
  await vi.advanceTimersByTimeAsync(0);
  expect(watch.curves.loss?.map(([step]) => step)).toEqual([1, 2, 3]);
  end();
});

it("asks no more once nobody looks", async () => {
  api.jobMetrics.mockImplementation(async (_: string, after: number) => told(after));
  const watch = new Watch();
  watch.follow("one")();
  watch.hurry(job);
  await vi.advanceTimersByTimeAsync(20_000);
  expect(api.jobMetrics).not.toHaveBeenCalled();
  expect(api.getJob).toHaveBeenCalledTimes(1);
});
