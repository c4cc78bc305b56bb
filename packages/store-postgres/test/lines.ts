import type { SessionHeader } from "@espalier/session-tree";

export const header = (id: string): SessionHeader => ({
  type: "session",
  version: 3,
  id,
  timestamp: "2026-01-01T00:00:00.000Z",
  cwd: "/garden",
});

/** The line of a custom entry. */
export const line = (id: string, parentId: string | null = null, data: unknown = id): string =>
  JSON.stringify({
    type: "custom",
    id,
    parentId,
    timestamp: "2026-01-01T00:00:01.000Z",
    customType: "test",
    data,
  });
