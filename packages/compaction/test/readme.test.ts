import { readFileSync } from "node:fs";
import { expect, it } from "vitest";

const read = (path: string) => readFileSync(new URL(path, import.meta.url), "utf8");

it("the examples of the README run, and equal the tested programs", async () => {
  const fences = [...read("../README.md").matchAll(/```ts\n(.*?)```/gs)].map((fence) => fence[1]);
  expect(fences).toEqual([read("./readme-example.ts"), read("./policies-readme-example.ts")]);
  await import("./readme-example.ts");
  await import("./policies-readme-example.ts");
});
