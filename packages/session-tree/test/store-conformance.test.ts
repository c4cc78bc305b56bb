import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { memoryStore } from "@espalier/session-tree";
import { fileStore } from "@espalier/session-tree/node";
import { faultStore, storeConformance } from "@espalier/session-tree/testing";
import { describe, expect, test } from "vitest";

storeConformance(
  { name: "memoryStore", open: async () => ({ store: memoryStore(), close: async () => undefined }) },
  { describe, test, expect },
);

storeConformance(
  {
    name: "fileStore",
    async open() {
      const home = mkdtempSync(join(tmpdir(), "espalier-"));
      return { store: fileStore({ home }), close: async () => rmSync(home, { recursive: true }) };
    },
  },
  { describe, test, expect },
);

storeConformance(
  {
    name: "faultStore, which only delays,",
    async open() {
      const delays = ({ number }: { number: number }) => ({ delay: (number * 7) % 4 });
      return { store: faultStore(memoryStore(), delays), close: async () => undefined };
    },
  },
  { describe, test, expect },
);
