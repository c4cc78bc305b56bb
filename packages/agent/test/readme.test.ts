import { readFileSync } from "node:fs";
import { expect, it } from "vitest";

const read = (path: string) => readFileSync(new URL(path, import.meta.url), "utf8");

it("the example of the README runs, and equals the tested program", async () => {
  const fences = [...read("../README.md").matchAll(/```ts\n(.*?)```/gs)].map((fence) => fence[1]);
  expect(fences).toEqual([read("./readme-example.ts")]);
  await import("./readme-example.ts");
});
