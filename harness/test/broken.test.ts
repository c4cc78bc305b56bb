import { expect, test } from "vitest";
import { findingsOf } from "../src/harness.ts";
import { storeNames } from "../src/stores.ts";
import { harnesses } from "../src/trials.ts";
import { bundledProgram, PATIENCE_MS } from "./bundled-program.ts";

const { program, folder } = bundledProgram();

test(
  "each of seven broken stores is caught, and each by searching for an order of steps",
  async () => {
    const run = { seed: 1, isShort: true, store: "file", folder: folder(), program } as const;
    const { faults, figures } = await findingsOf(await harnesses["broken"]!(), run);
    expect(faults).toEqual([]);
    expect(Object.keys(figures).length).toBe(5 + storeNames.length - 1);
  },
  PATIENCE_MS,
);
