/** Something that is being read from the server: the newest question wins, the last answer stays until then. */
import { Refusal } from "../../api/client";
import { said, studio, titled } from "../../state/studio.svelte";

export class Reading<T> {
  value = $state.raw<T | null>(null);
  problem = $state<string | null>(null);
  title = $state<string | null>(null);
  busy = $state(false);
  private turn = 0;
  private running: AbortController | null = null;

  async read(make: (signal: AbortSignal) => Promise<T>) {
    const mine = ++this.turn;
    this.running?.abort();
    const control = (this.running = new AbortController());
    this.busy = true;
    try {
      const value = await make(control.signal);
      if (mine !== this.turn) return;
      this.value = value;
      this.problem = null;
    } catch (error) {
      if (mine !== this.turn) return;
      if (error instanceof Refusal && error.status === 404) return void studio.again(error.message); // what reads it reads anew then
      this.value = null;
      this.problem = said(error);
      this.title = titled(error);
    }
    this.busy = false;
  }

  forget() {
    this.turn++;
    this.running?.abort();
    this.value = null;
    this.problem = null;
    this.busy = false;
  }
}

/** Calls once, when the element comes near the screen. */
export function whenSeen(call: () => void) {
  return (element: HTMLElement) => {
    const watch = new IntersectionObserver(
      (entries) => {
        if (!entries.some((entry) => entry.isIntersecting)) return;
        watch.disconnect();
        call();
      },
      { rootMargin: "120px" },
    );
    watch.observe(element);
    return () => watch.disconnect();
  };
}
