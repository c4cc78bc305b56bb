import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { memoryStore } from "@espalier/session-tree";
import { fileStore } from "@espalier/session-tree/node";
import { storeConformance } from "@espalier/session-tree/testing";
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
