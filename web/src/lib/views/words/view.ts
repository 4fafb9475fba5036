import type { View } from "..";
import Words from "./Words.svelte";

export default { id: "words", title: "Words", component: Words, needs: "nothing" } satisfies View;
