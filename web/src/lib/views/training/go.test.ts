import { describe, expect, it } from "vitest";
import { place } from "../../state/place.svelte";
import { toJob, unlessLeft } from "./go";

/** Work that is done when it is told so. */
function work() {
  let end: (job: string) => void = () => {};
  const done = new Promise<string>((resolve) => (end = resolve));
  return { done, end };
}

describe("work that leads somewhere", () => {
  it("takes the reader there when it is done", async () => {
    place.go({ tab: "training", more: {} });
    const { done, end } = work();
    const gone = unlessLeft(done, toJob);
    end("digits-2");
    await gone;
    expect(place.spot).toMatchObject({ tab: "training", more: { job: "digits-2" } });
  });
  it("leaves a reader alone who has gone to another tab meanwhile", async () => {
    place.go({ tab: "training", more: {} });
    const { done, end } = work();
    const gone = unlessLeft(done, toJob);
    place.go({ tab: "words" });
    end("digits-2");
    await gone;
    expect(place.spot).toMatchObject({ tab: "words", more: {} });
  });
});
