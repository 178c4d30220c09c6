// Panel plugins, which live in Grafana's server and are not published, made of the components that are.
import { EventBusSrv, PanelPlugin, VizOrientation, cacheFieldDisplayNames, getDisplayValueAlignmentFactors, getFieldDisplayValues, renderTextPanelMarkdown } from '@grafana/data';
import { BarGauge, BigValue, PanelContextProvider, TimeSeries, VizRepeater } from '@grafana/ui';
import { TableNG } from '@grafana/ui/unstable';
import { Component } from 'react';
import { AnnotationMarks, Heatmap, StateTimeline, numbersOf } from './drawings.jsx';
import { customOptions, theme } from './grafana.js';

const bus = new EventBusSrv();
const CONTEXT = { eventsScope: 'preview', eventBus: bus, app: 'dashboard', canAddAnnotations: () => false };

export const faults = [];

class Guard extends Component {
  state = {};
  static getDerivedStateFromError(error) {
    faults.push(String(error.stack).slice(0, 600));
    return { error };
  }
  render() {
    return this.state.error ? <div className="preview-empty">{String(this.state.error)}</div> : this.props.children;
  }
}

const filled = (Drawing) => (props) =>
  props.data.series.some((frame) => numbersOf(frame).length > 0) ? <Drawing {...props} /> : (
    <div className="preview-empty">{props.fieldConfig.defaults.noValue ?? 'No data'}</div>
  );

function Lines({ data, width, height, timeZone, options }) {
  const annotations = (data.annotations ?? []).flatMap(rowsOf);
  return (
    <PanelContextProvider value={CONTEXT}>
      <TimeSeries frames={data.series.map(finite)} structureRev={data.structureRev} timeRange={data.timeRange} timeZone={timeZone} width={width} height={height}
        legend={{ showLegend: true, displayMode: 'list', placement: 'bottom', calcs: [], ...options.legend }} options={options}>
        {(config) => <AnnotationMarks config={config} annotations={annotations} />}
      </TimeSeries>
    </PanelContextProvider>
  );
}

/** What is no number becomes a gap, as in Grafana's own panel: the plot cannot scale to it. */
const finite = (frame) => ({
  ...frame, fields: frame.fields.map((field) => (numbersOf(frame).includes(field) ? { ...field, values: field.values.map((one) => (Number.isFinite(one) ? one : null)) } : field)),
});

const rowsOf = (frame) => Array.from({ length: frame.length }, (_, row) => Object.fromEntries(frame.fields.map((field) => [field.name, field.values[row]])));

const displayed = ({ data, fieldConfig, options, replaceVariables, timeZone }) => () =>
  getFieldDisplayValues({
    fieldConfig, replaceVariables, theme, timeZone, data: data.series, sparkline: options.graphMode !== undefined && options.graphMode !== 'none',
    reduceOptions: { calcs: ['lastNotNull'], values: false, ...options.reduceOptions },
  });

function Repeated({ draw, ...props }) {
  return (
    <VizRepeater getValues={displayed(props)} getAlignmentFactors={getDisplayValueAlignmentFactors} renderValue={draw} width={props.width} height={props.height}
      source={props.data} renderCounter={props.renderCounter} autoGrid={true} itemSpacing={3} orientation={props.options.orientation ?? VizOrientation.Auto} />
  );
}

function Stat(props) {
  const { options } = props;
  const draw = ({ value, width, height, count, alignmentFactors }) => (
    <BigValue value={value.display} count={count} sparkline={value.sparkline} width={width} height={height} theme={theme} alignmentFactors={alignmentFactors}
      colorMode={options.colorMode ?? 'value'} graphMode={options.graphMode ?? 'none'} justifyMode={options.justifyMode ?? 'auto'} textMode={options.textMode ?? 'auto'}
      text={options.text} wideLayout={options.wideLayout ?? true} />
  );
  return <Repeated {...props} draw={draw} />;
}

function Bars(props) {
  const { options } = props;
  const draw = ({ value, width, height, orientation, count, alignmentFactors }) => (
    <BarGauge value={value.display} width={width} height={height} orientation={orientation} field={value.field} display={value.view?.getFieldDisplayProcessor(value.colIndex)}
      theme={theme} itemSpacing={8} displayMode={options.displayMode ?? 'gradient'} showUnfilled={options.showUnfilled ?? true} alignmentFactors={count > 1 ? alignmentFactors : undefined} />
  );
  return <Repeated {...props} draw={draw} />;
}

function Grid({ data, width, height, options, fieldConfig, timeRange }) {
  cacheFieldDisplayNames(data.series); // the table reads names there and nowhere else
  return (
    <TableNG data={data.series[0]} width={width} height={height} noHeader={!(options.showHeader ?? true)} showTypeIcons={false} resizable={true} sortBy={options.sortBy}
      cellHeight={options.cellHeight ?? 'sm'} fieldConfig={fieldConfig} timeRange={timeRange} structureRev={data.structureRev} />
  );
}

const Text = ({ options, replaceVariables }) => (
  <div className="markdown-html" style={{ height: '100%', overflow: 'auto' }} dangerouslySetInnerHTML={{ __html: renderTextPanelMarkdown(replaceVariables(options.content ?? '')) }} />
);

const Unknown = () => <div className="preview-empty">The preview draws no panel of this type</div>;

const HIDE = { viz: false, legend: false, tooltip: false };
const LINES = {
  drawStyle: 'line', lineWidth: 1, fillOpacity: 0, gradientMode: 'none', lineInterpolation: 'linear', lineStyle: undefined, fillBelowTo: undefined, showPoints: 'auto',
  pointSize: 5, spanNulls: false, insertNulls: false, barAlignment: 0, barWidthFactor: 0.6, stacking: { mode: 'none', group: 'A' }, axisPlacement: 'auto', axisLabel: '',
  axisWidth: undefined, axisSoftMin: undefined, axisSoftMax: undefined, axisCenteredZero: false, axisBorderShow: false, axisGridShow: undefined, axisColorMode: 'text',
  scaleDistribution: { type: 'linear' }, thresholdsStyle: { mode: 'off' }, hideFrom: HIDE, transform: undefined,
};
const TABLE = { align: 'auto', cellOptions: { type: 'auto' }, filterable: false, inspect: false, width: undefined, minWidth: undefined, hidden: false, hideFrom: HIDE, wrapText: false };

const PANELS = {
  timeseries: [filled(Lines), LINES],
  stat: [Stat, { hideFrom: HIDE }],
  gauge: [filled(Bars), { hideFrom: HIDE }],
  bargauge: [filled(Bars), { hideFrom: HIDE }],
  table: [filled(Grid), TABLE],
  heatmap: [filled(Heatmap), { hideFrom: HIDE, scaleDistribution: { type: 'linear' } }],
  'state-timeline': [filled(StateTimeline), { lineWidth: 0, fillOpacity: 70, spanNulls: false, insertNulls: false, hideFrom: HIDE }],
  text: [Text, {}],
};

/** Drawn by this program, not by a component of Grafana's. */
export const DRAWN_HERE = ['heatmap', 'state-timeline', 'text'];

const made = new Map();

/** The plugin of a panel type. */
export function plugin(id) {
  if (!made.has(id)) {
    const [Drawing, custom] = PANELS[id] ?? [Unknown, {}];
    const one = new PanelPlugin((props) => <Guard><Drawing {...props} /></Guard>).useFieldConfig(customOptions(custom));
    one.setDataSupport({ annotations: true, alertStates: false });
    one.meta = { id, name: id, type: 'panel', info: { version: '1', logos: {} }, module: '', baseUrl: '', skipDataQuery: id === 'text' };
    made.set(id, one);
  }
  return made.get(id);
}

export const isKnown = (id) => id in PANELS;
