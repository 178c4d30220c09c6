// Heatmap, state timeline and annotation marks: Grafana publishes no component for them, so these are drawn plainly here.
import { FieldType, dateTimeFormat, formattedValueToString, getDisplayProcessor, getFieldDisplayName, getValueFormat } from '@grafana/data';
import { useLayoutEffect } from 'react';
import { theme } from './grafana.js';

const TEXT = { fill: theme.colors.text.secondary, fontSize: 11, fontFamily: theme.typography.fontFamily };
const AXIS_HEIGHT = 22;

/** Values of a frame that a panel can draw. */
export const numbersOf = (frame) => frame.fields.filter((field) => field.type === FieldType.number);

/** Vertical marks over a plot, with a bar below where an event lasts. */
export function AnnotationMarks({ config, annotations }) {
  useLayoutEffect(() => {
    config.addHook('draw', (plot) => {
      for (const { time, timeEnd, color } of annotations) {
        mark(plot, time, Math.max(time, timeEnd ?? time), theme.visualization.getColorByName(color ?? 'red'));
      }
    });
  }, [config, annotations]);
  return null;
}

function mark(plot, from, to, color) {
  const { ctx, bbox } = plot;
  const left = Math.max(plot.valToPos(from, 'x', true), bbox.left);
  const right = Math.min(plot.valToPos(to, 'x', true), bbox.left + bbox.width);
  if (right < bbox.left || left > bbox.left + bbox.width) {
    return;
  }
  ctx.save();
  ctx.strokeStyle = color;
  ctx.fillStyle = color;
  ctx.lineWidth = 2;
  ctx.setLineDash([5, 5]);
  for (const x of new Set([left, right])) {
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.globalAlpha = 0.1;
  ctx.fillRect(left, bbox.top, right - left, bbox.height);
  ctx.globalAlpha = 1;
  ctx.fillRect(left, bbox.top + bbox.height, Math.max(right - left, 4), 5);
  ctx.restore();
}

/** One row of a field's values over time, equal neighbours joined, coloured by mapping or threshold. */
export function StateTimeline({ data, width, height, timeZone, options }) {
  const rows = data.series.flatMap((frame) => numbersOf(frame).map((field) => ({ field, frame, times: timesOf(frame) })));
  const labels = rows.map(({ field, frame }) => getFieldDisplayName(field, frame, data.series));
  const left = Math.min(width * 0.4, 12 + 6.6 * Math.max(...labels.map((label) => label.length)));
  const { at, marks } = timeAxis(data.timeRange, left, width, timeZone);
  const legend = options.legend?.showLegend === false ? [] : shownValues(rows);
  const rowHeight = (height - AXIS_HEIGHT - (legend.length ? 22 : 0)) / rows.length;
  const bar = rowHeight * (options.rowHeight ?? 0.9);
  return (
    <div>
      <svg width={width} height={rowHeight * rows.length + AXIS_HEIGHT}>
        {rows.map(({ field, times }, row) => (
          <g key={row} transform={`translate(0, ${row * rowHeight})`}>
            <text {...TEXT} x={left - 8} y={rowHeight / 2 + 4} textAnchor="end">{labels[row]}</text>
            {runs(times, field.values).map(({ from, to, value }) => {
              const shown = displayOf(field)(value);
              const span = at(to) - at(from);
              const text = formattedValueToString(shown);
              return (
                <g key={from}>
                  <rect x={at(from)} width={Math.max(span, 1)} y={(rowHeight - bar) / 2} height={bar} fill={shown.color} fillOpacity={0.75} />
                  {span > text.length * 8 && options.showValue !== 'never' && (
                    <text {...TEXT} fill="#fff" x={at(from) + 6} y={rowHeight / 2 + 4}>{text}</text>
                  )}
                </g>
              );
            })}
          </g>
        ))}
        <TimeMarks marks={marks} y={rowHeight * rows.length} />
      </svg>
      <div style={{ display: 'flex', gap: 16, flexWrap: 'wrap', fontSize: 12, color: theme.colors.text.secondary, height: 22 }}>
        {legend.map(({ text, color }) => (
          <span key={text}><span style={{ display: 'inline-block', width: 14, height: 4, borderRadius: 2, marginRight: 6, verticalAlign: 'middle', background: color }} />{text}</span>
        ))}
      </div>
    </div>
  );
}

const displayOf = (field) => field.display ?? getDisplayProcessor({ field, theme });

function shownValues(rows) {
  const found = new Map();
  for (const { field } of rows) {
    for (const value of new Set(field.values.filter((one) => one != null))) {
      const shown = displayOf(field)(value);
      found.set(formattedValueToString(shown), shown.color);
    }
  }
  return [...found].map(([text, color]) => ({ text, color })).slice(0, 12);
}

function runs(times, values) {
  const step = times.length > 1 ? Math.min(...times.slice(1).map((time, i) => time - times[i])) : 0;
  const found = [];
  times.forEach((time, i) => {
    const last = found.at(-1);
    if (last && last.value === values[i] && time - last.to <= 1.5 * step) {
      last.to = time + step;
    } else if (values[i] != null) {
      if (last && last.to > time) {
        last.to = time;
      }
      found.push({ from: time, to: time + step, value: values[i] });
    }
  });
  return found;
}

/** Counts by bucket over time. Series are cumulative buckets named by `le`, as Grafana reads them in this format. */
export function Heatmap({ data, width, height, timeZone, options }) {
  const buckets = data.series
    .map((frame) => ({ field: numbersOf(frame)[0], times: timesOf(frame) }))
    .map((one) => ({ ...one, bound: Number(one.field.labels?.le?.replace('+Inf', 'Infinity') ?? one.field.config.displayNameFromDS) }))
    .sort((one, other) => one.bound - other.bound);
  const cells = buckets.flatMap(({ field, times }, row) => times.map((time, i) => ({ row, time, count: field.values[i] - below(buckets[row - 1], time) })));
  const most = Math.max(...cells.map(({ count }) => count));
  const used = cells.filter(({ count }) => count > 0).map(({ row }) => row);
  const first = Math.max(Math.min(...used) - 1, 0);
  const last = Math.min(Math.max(...used) + 1, buckets.length - 1);
  const format = getValueFormat(options.yAxis?.unit ?? buckets[0].field.config.unit ?? 'short');
  const left = 64;
  const { at, marks } = timeAxis(data.timeRange, left, width, timeZone);
  const rowHeight = (height - AXIS_HEIGHT) / (last - first + 1);
  const top = (row) => (last - row) * rowHeight;
  const step = Math.max(...buckets.map(({ times }) => (times.length > 1 ? times[1] - times[0] : 0)));
  const every = Math.ceil(16 / rowHeight);
  return (
    <svg width={width} height={height}>
      {cells.filter(({ count, row }) => count > 0 && row >= first && row <= last).map(({ row, time, count }) => (
        <rect key={`${row}/${time}`} x={at(time - step)} width={Math.max(at(time) - at(time - step) - 0.5, 1)} y={top(row)} height={Math.max(rowHeight - 1, 1)}
          fill={shade(Math.sqrt(count / most))} />
      ))}
      {buckets.map(({ bound }, row) => row >= first && row <= last && (row - first) % every === 0 && (
        <text key={row} {...TEXT} x={left - 8} y={top(row) + 4} textAnchor="end">{bound === Infinity ? '+Inf' : formattedValueToString(format(bound))}</text>
      ))}
      <TimeMarks marks={marks} y={height - AXIS_HEIGHT} />
    </svg>
  );
}

const below = (bucket, time) => bucket?.field.values[bucket.times.indexOf(time)] ?? 0;
const shade = (share) => `hsl(${30 - 25 * share}, 90%, ${20 + 45 * share}%)`;
const timesOf = (frame) => frame.fields.find((field) => field.type === FieldType.time).values;

function timeAxis(range, left, width, timeZone) {
  const from = range.from.valueOf();
  const to = range.to.valueOf();
  const at = (time) => left + ((Math.min(Math.max(time, from), to) - from) / (to - from)) * (width - left - 8);
  const step = [15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200].map((s) => s * 1000).find((s) => (to - from) / s < (width - left) / 90) ?? 14400000;
  const marks = [];
  for (let time = Math.ceil(from / step) * step; time < to; time += step) {
    marks.push({ x: at(time), text: dateTimeFormat(time, { timeZone, format: step < 60000 ? 'HH:mm:ss' : 'HH:mm' }) });
  }
  return { at, marks };
}

const TimeMarks = ({ marks, y }) => marks.map(({ x, text }) => <text key={x} {...TEXT} x={x} y={y + 15} textAnchor="middle">{text}</text>);
