/** Light or dark: what the address says, else what the system asks for. */
import type { Theme } from "../math/scales";
import { place } from "./place.svelte";

const query = typeof matchMedia === "function" ? matchMedia("(prefers-color-scheme: dark)") : null;

class Look {
  private systemDark = $state(query?.matches ?? false);

  constructor() {
    query?.addEventListener("change", (event) => (this.systemDark = event.matches));
  }

  get theme(): Theme {
    return place.spot.theme ?? (this.systemDark ? "dark" : "light");
  }

  toggle() {
    place.go({ theme: this.theme === "dark" ? "light" : "dark" }, true);
  }
}

export const look = new Look();
