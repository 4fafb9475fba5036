import type { View } from "..";
import Decode from "./Decode.svelte";

export default { id: "decode", title: "Decode", component: Decode, needs: "pass" } satisfies View;
