import { type ComponentChildren, options } from "preact";

/** Characters that change the text direction, invisible characters, and control characters except tab and line ends. */
const HIDDEN =
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff]|\udb40[\udc00-\udc7f]/g;

/** Escape sequences of terminals, which have no meaning on a page. */
const TERMINAL = /\u001b\[[0-9;?]*[A-Za-z]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)/g;

/**
 * Replaces hidden characters of a text with their numbers (`⟨U+200B⟩`). Removes escape sequences of terminals, changes all
 * line ends to newlines, and replaces lone surrogates with U+FFFD.
 */
export function visibleControls(text: string): string {
  return text
    .replace(TERMINAL, "")
    .replace(/\r\n?/g, "\n")
    .replace(
      HIDDEN,
      (character) => `⟨U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}⟩`,
    )
    .toWellFormed();
}

/**
 * Makes hidden characters visible in all text that the page renders: names, folders, models, labels. Markup that is set
 * as a whole and input of the user are not changed.
 */
export function showControls(): void {
  const { vnode: before } = options;
  options.vnode = (vnode) => {
    const props = vnode.props as Record<string, unknown> & { children?: ComponentChildren };
    if (typeof vnode.type === "string") {
      for (const name of SAID)
        if (typeof props[name] === "string") props[name] = visibleControls(props[name]);
      if (props.children !== undefined) props.children = visibleChildren(props.children);
    }
    before?.(vnode);
  };
}

/** Attributes that screen readers read aloud. */
const SAID = ["title", "aria-label"];

function visibleChildren(children: ComponentChildren): ComponentChildren {
  if (typeof children === "string") return visibleControls(children);
  return Array.isArray(children) ? children.map(visibleChildren) : children;
}
