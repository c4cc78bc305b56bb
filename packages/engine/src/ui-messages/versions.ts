import { ChildIndex, type Entry, isMessage, message, type Tree } from "@espalier/session-tree";
import type { UIMessage } from "ai";
import type { Session } from "../session/session.ts";
import { newestEnd, saidOn, uiMessages } from "./ui-messages.ts";

/** Versions of a message that was edited or regenerated, for a picker such as "2 of 3". */
export interface UiVersions {
  /** Index in `ids` of the version on the leaf's path. */
  index: number;
  /** Ids of the versions, oldest first, for {@link showUiVersion}. */
  ids: string[];
}

/**
 * Returns the versions of the messages on the leaf's path, by message id; messages with a single version are left out.
 */
export async function uiVersions(session: Session): Promise<Record<string, UiVersions>> {
  const tree = await session.load();
  const children = new ChildIndex(tree);
  const versions: Record<string, UiVersions> = {};
  for (const { message: shown, first } of await saidOn(session)) {
    const ids = besides(tree, children, first);
    if (ids.length > 1) versions[shown.id] = { index: ids.indexOf(first.id), ids };
  }
  return versions;
}

/**
 * Shows another version of a message: moves the leaf to the newest branch end below that version, and returns the
 * messages of the new path.
 *
 * @throws EspalierError `unknown-entry`
 */
export async function showUiVersion<Message extends UIMessage = UIMessage>(
  session: Session,
  versionId: string,
): Promise<Message[]> {
  await session.load();
  await session.moveTo(newestEnd(session, versionId));
  return uiMessages<Message>(session);
}

/**
 * Returns the first entries of this message and of all messages in the same role that follow the same message, in file
 * order.
 */
function besides(tree: Tree, children: ChildIndex, first: Entry): string[] {
  let above = tree.index.parent(tree.row(first.id));
  while (above >= 0 && tree.kindAt(above).type !== message.type) above = tree.index.parent(above);
  const role = message.is(first) ? first.message.role : undefined;
  const found: number[] = [];
  const open = above < 0 ? [...children.roots] : [...children.of(above)];
  for (let row = open.pop(); row !== undefined; row = open.pop()) {
    if (tree.kindAt(row).type !== message.type) open.push(...children.of(row));
    else if (role === undefined || isMessage(tree.entryAt(row), role)) found.push(row);
  }
  return found.sort((a, b) => a - b).map((row) => tree.idAt(row));
}
