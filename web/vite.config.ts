import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { svelteTesting } from "@testing-library/svelte/vite";
import { defineConfig, type Plugin } from "vitest/config";

const page = resolve(import.meta.dirname, "../src/clearhead/studio/page");
const bundled = ["svelte", "d3", "katex", "@fontsource-variable/inter"];

/** KaTeX names each font in three formats; every browser that runs this page reads woff2. */
function onlyWoff2(): Plugin {
  return {
    name: "only-woff2",
    enforce: "pre",
    transform(code, id) {
      if (!id.includes("katex.min.css")) return undefined;
      return code.replace(/,\s*url\([^)]*\.(?:woff|ttf)\)\s*format\(["'](?:woff|truetype)["']\)/g, "");
    },
  };
}

/** The licences of what is inside the bundle travel with it. */
function licences(): Plugin {
  const text = (name: string) =>
    readFileSync(resolve(import.meta.dirname, "node_modules", name, name === "svelte" ? "LICENSE.md" : "LICENSE"), "utf8");
  return {
    name: "licences",
    apply: "build",
    generateBundle() {
      const source = bundled.map((name) => `${name}\n${"=".repeat(name.length)}\n\n${text(name)}`).join("\n\n");
      this.emitFile({ type: "asset", fileName: "licences.txt", source });
    },
  };
}

export default defineConfig({
  plugins: [onlyWoff2(), svelte(), svelteTesting(), licences()],
  base: "./",
  build: {
    outDir: page,
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    assetsInlineLimit: 200_000, // fonts inside the style sheet: the page is three files, and one when it is shared
    chunkSizeWarningLimit: 1500,
  },
  server: { proxy: { "/api": process.env.CLEARHEAD_STUDIO ?? "http://127.0.0.1:8765" } },
  test: { environment: "jsdom", include: ["src/**/*.test.ts"] },
});
