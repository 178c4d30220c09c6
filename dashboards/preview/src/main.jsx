// Draws the board that the address names, and tells what came of each panel: `window.preview`.
import { LoadingState, ThemeContext } from '@grafana/data';
import { initPluginTranslations } from '@grafana/i18n';
import * as runtime from '@grafana/runtime';
import { VizPanel, sceneGraph } from '@grafana/scenes';
import { GlobalStyles, PortalContainer } from '@grafana/ui';
import { createRoot } from 'react-dom/client';
import { BrowserRouter } from 'react-router-dom';
import { sceneOf } from './board.js';
import { numbersOf } from './drawings.jsx';
import { setUp, theme } from './grafana.js';
import { DRAWN_HERE, faults, isKnown, plugin } from './panels.jsx';
import { Prometheus } from './prometheus.js';

const asked = new URLSearchParams(location.search);
const instance = (type, name) => ({
  id: 1, uid: type, name, type, access: 'proxy', readOnly: true, jsonData: {}, meta: { id: type, name, info: { logos: {} } },
});
// Stores of logs and traces are there to be chosen for links; nothing asks them.
const instances = [instance('prometheus', 'Prometheus'), instance('loki', 'Loki'), instance('tempo', 'Tempo')];
const source = new Prometheus(instances[0], { url: asked.get('prometheus'), scrapeSeconds: Number(asked.get('scrape') ?? 15) });
let scene;
setUp({ source, instances, plugin, scene: () => scene });

const board = await (await fetch(`boards/${asked.get('board')}.json`)).json();
const choices = Object.fromEntries([...asked].filter(([key]) => key.startsWith('var-')).map(([key, value]) => [key.slice(4), value]));
scene = sceneOf(board, { open: asked.has('open'), choices, from: asked.get('from') ?? undefined, to: asked.get('to') ?? undefined });
await initPluginTranslations('grafana-scenes').catch(() => undefined);

const App = () => (
  <ThemeContext.Provider value={theme}>
    <GlobalStyles />
    <BrowserRouter>
      <runtime.LocationServiceProvider service={runtime.locationService}>
        <h1 style={{ font: `500 22px ${theme.typography.fontFamily}`, padding: '12px 16px 0', margin: 0 }}>{board.title}</h1>
        <div style={{ padding: '8px 16px 16px', display: 'flex' }}><scene.Component model={scene} /></div>
      </runtime.LocationServiceProvider>
    </BrowserRouter>
    <PortalContainer />
  </ThemeContext.Provider>
);

const panels = () => sceneGraph.findAllObjects(scene, (one) => one instanceof VizPanel && one.isActive);
const dataOf = (panel) => panel.state.$data?.state.data;
const isDone = (panel) => !panel.state.$data
  || (panel.state.$data.state.$data.state._hasFetchedData && [LoadingState.Done, LoadingState.Error].includes(dataOf(panel)?.state));

window.preview = {
  settled: () => source.pending === 0 && panels().length > 0 && panels().every(isDone),
  height: () => Math.ceil(Math.max(...[...document.querySelectorAll('.react-grid-item')].map((one) => one.getBoundingClientRect().bottom))) + 24 + window.scrollY,
  report: () => ({
    title: board.title, faults, asked: source.asked.filter(({ warnings, infos }) => warnings.length + infos.length > 0), panels: panels().map(told),
    choices: scene.state.$variables.state.variables.map((one) => ({ name: one.state.name, values: one.state.options?.length ?? 1, error: one.state.error ?? null })),
  }),
};

function told(panel) {
  const data = dataOf(panel);
  const type = panel.state.pluginId;
  return {
    title: panel.state.title, type, drawnHere: DRAWN_HERE.includes(type), known: isKnown(type), errors: (data?.errors ?? []).map((one) => one.message),
    isEmpty: Boolean(panel.state.$data) && !(data?.series ?? []).some((frame) => numbersOf(frame).some((field) => field.values.some(Number.isFinite))),
  };
}

document.title = board.title;
document.body.style.background = theme.colors.background.canvas;
createRoot(document.getElementById('root')).render(<App />);
