// A board's JSON as a scene: what Grafana's server does in code that is not published.
import {
  CustomVariable, DataSourceVariable, EmbeddedScene, IntervalVariable, QueryVariable, SceneControlsSpacer, SceneDataLayerControls, SceneDataLayerSet,
  SceneDataTransformer, SceneGridItem, SceneGridLayout, SceneGridRow, SceneQueryRunner, SceneRefreshPicker, SceneTimePicker, SceneTimeRange, SceneVariableSet, TextBoxVariable,
  VariableValueSelectors, VizPanel, dataLayers,
} from '@grafana/scenes';

const SOURCE = { uid: 'prometheus', type: 'prometheus' };

/** The scene of a board; `open` unfolds every row, `choices` sets variables. */
export function sceneOf(board, { open, choices, from, to }) {
  const marks = (board.annotations?.list ?? []).filter((one) => one.expr);
  return new EmbeddedScene({
    $timeRange: new SceneTimeRange({ from: from ?? board.time.from, to: to ?? board.time.to, timeZone: 'utc' }),
    $variables: new SceneVariableSet({ variables: board.templating.list.map((one) => variable(one, choices[one.name])) }),
    $data: new SceneDataLayerSet({ name: marks.map((one) => one.name).join(', ') || 'No marks', layers: marks.map(layer) }),
    controls: [new VariableValueSelectors({}), new SceneDataLayerControls({}), new SceneControlsSpacer(), new SceneTimePicker({}), new SceneRefreshPicker({ refresh: '' })],
    body: new SceneGridLayout({ children: sections(board.panels, open) }),
  });
}

const layer = (query) => new dataLayers.AnnotationsDataLayer({ name: query.name, isEnabled: query.enable, query: { ...query, datasource: SOURCE } });

/** Rows with the panels that belong to them, and panels before the first row. */
function sections(panels, open) {
  const children = [];
  let row = null;
  let shift = 0;
  for (const panel of panels) {
    if (panel.type !== 'row') {
      (row?.state.children ?? children).push(placed(panel, shift));
      continue;
    }
    const folded = panel.collapsed && !open;
    row = new SceneGridRow({ key: `row-${panel.id}`, title: panel.title, x: 0, y: panel.gridPos.y + shift, isCollapsible: true, isCollapsed: folded, children: [] });
    children.push(row);
    if (panel.collapsed) {
      row.setState({ children: panel.panels.map((child) => placed(child, shift)) });
      shift += open ? heightBelow(panel) : 0;
      row = null;
    }
  }
  return children;
}

const heightBelow = ({ gridPos, panels }) => Math.max(...panels.map((one) => one.gridPos.y + one.gridPos.h)) - gridPos.y - 1;

const placed = (panel, shift) => new SceneGridItem({
  x: panel.gridPos.x, y: panel.gridPos.y + shift, width: panel.gridPos.w, height: panel.gridPos.h, isDraggable: false, isResizable: false, body: drawnPanel(panel),
});

function drawnPanel(panel) {
  return new VizPanel({
    key: `panel-${panel.id}`, pluginId: panel.type, title: panel.title ?? '', description: panel.description, options: panel.options ?? {},
    fieldConfig: { defaults: {}, overrides: [], ...panel.fieldConfig }, displayMode: panel.transparent ? 'transparent' : 'default',
    $timeRange: panel.timeFrom ? new SceneTimeRange({ from: `now-${panel.timeFrom}`, to: 'now' }) : undefined,
    $data: panel.targets ? dataOf(panel) : undefined,
  });
}

function dataOf(panel) {
  const queries = new SceneQueryRunner({
    datasource: SOURCE, queries: panel.targets, minInterval: panel.interval, maxDataPoints: panel.maxDataPoints, maxDataPointsFromWidth: true,
  });
  return new SceneDataTransformer({ $data: queries, transformations: panel.transformations ?? [] });
}

function variable(one, chosen) {
  const common = { name: one.name, label: one.label, hide: one.hide, skipUrlSync: true };
  const many = { isMulti: one.multi, includeAll: one.includeAll, allValue: one.allValue, defaultToAll: one.includeAll };
  const current = chosen ? (one.multi ? [chosen] : chosen) : one.current?.value;
  switch (one.type) {
    case 'datasource':
      return new DataSourceVariable({ ...common, pluginId: one.query, regex: one.regex ?? '', value: one.query });
    case 'query':
      return new QueryVariable({ ...common, ...many, query: one.query, regex: one.regex ?? '', sort: one.sort, refresh: one.refresh, datasource: SOURCE, value: current ?? '', text: current ?? '' });
    case 'custom':
      return new CustomVariable({ ...common, ...many, query: one.query, value: current ?? '', text: one.current?.text ?? current ?? '' });
    case 'interval':
      return new IntervalVariable({ ...common, intervals: one.query.split(','), value: current ?? '' });
    case 'textbox':
      return new TextBoxVariable({ ...common, value: current ?? one.query ?? '' });
    default:
      throw new Error(`variable ${one.name}: the preview knows no type ${one.type}`);
  }
}
