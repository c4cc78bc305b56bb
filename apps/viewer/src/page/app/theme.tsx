import { useObserved } from "../source/observe.ts";

type Theme = "light" | "dark";

const systemDark = () => matchMedia("(prefers-color-scheme: dark)");

/** Theme of the page: the system's setting until the user chooses. */
let chosen: Theme | undefined;

const observers = new Set<() => void>();
const observed = {
  subscribe(observer: () => void) {
    observers.add(observer);
    return () => void observers.delete(observer);
  },
};

const shownTheme = (): Theme => chosen ?? (systemDark().matches ? "dark" : "light");

function setTheme(): void {
  document.documentElement.dataset["theme"] = shownTheme();
  for (const observer of observers) observer();
}

/** Sets the theme of the page, and follows the setting of the system. */
export function showTheme(): void {
  setTheme();
  systemDark().addEventListener("change", setTheme);
}

/** Returns the current theme of the page, and again when it changes. */
export function useTheme(): Theme {
  useObserved(observed);
  return shownTheme();
}

/** Button that changes the theme. */
export function ThemeButton() {
  const other = useTheme() === "dark" ? "light" : "dark";
  const change = () => {
    chosen = other;
    setTheme();
  };
  return (
    <button type="button" class="theme" aria-label={`Change to ${other}`} onClick={change}>
      {other === "light" ? "☾" : "☀"}
    </button>
  );
}
