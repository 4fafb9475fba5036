import type { View } from "..";
import Compare from "./Compare.svelte";

export default { id: "compare", title: "Compare", component: Compare, needs: "nothing" } satisfies View;
