import type { View } from "..";
import Share from "./Share.svelte";

export default { id: "share", title: "Share", component: Share, needs: "nothing", menu: true } satisfies View;
