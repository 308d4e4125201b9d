package peers.flink;

import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeHint;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple10;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.api.java.tuple.Tuple7;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.functions.co.KeyedCoProcessFunction;
import org.apache.flink.table.data.RowData;
import org.apache.flink.types.Row;
import org.apache.flink.util.Collector;

/** The queries as functions with state, as one writes them who knows that an auction is there once. */
final class NexmarkProcess {
    private static final long WINDOW_MS = 10_000;
    private static final long CATEGORY = 10;
    private static final TypeInformation<Tuple7<Long, Long, Long, String, String, Long, String>> BID =
        new TypeHint<Tuple7<Long, Long, Long, String, String, Long, String>>() {}.getTypeInfo();
    private static final TypeInformation<Tuple10<Long, String, String, Long, Long, Long, Long, Long, Long, String>> AUCTION =
        new TypeHint<Tuple10<Long, String, String, Long, Long, Long, Long, Long, Long, String>>() {}.getTypeInfo();

    private NexmarkProcess() {}

    static DataStream<Row> q20(DataStream<RowData> events, boolean outer) {
        var timed = events.assignTimestampsAndWatermarks(Nexmark.watermarks());
        var bids = timed.filter(event -> event.getInt(0) == 2).map(NexmarkProcess::bid, BID).keyBy(bid -> bid.f0, Types.LONG);
        var auctions = timed.filter(event -> event.getInt(0) == 1).map(NexmarkProcess::auction, AUCTION).keyBy(auction -> auction.f0, Types.LONG);
        TypeInformation<?>[] columns = new TypeInformation<?>[16];
        for (int i = 0; i < 16; i++) columns[i] = List.of(3, 4, 6, 7, 8, 15).contains(i) ? Types.STRING : Types.LONG;
        return bids.connect(auctions).process(new Expand(outer), Types.ROW(columns));
    }

    static DataStream<Row> q8(DataStream<RowData> events) {
        var timed = events.assignTimestampsAndWatermarks(Nexmark.watermarks());
        var persons = timed.filter(event -> event.getInt(0) == 0).map(event -> {
            RowData person = event.getRow(1, 8);
            return Tuple3.of(person.getLong(0), person.getString(1).toString(), person.getTimestamp(6, 3).getMillisecond());
        }, Types.TUPLE(Types.LONG, Types.STRING, Types.LONG)).keyBy(person -> (Long) person.getField(0), Types.LONG);
        var auctions = timed.filter(event -> event.getInt(0) == 1).map(event -> {
            RowData auction = event.getRow(2, 10);
            return Tuple2.of(auction.getLong(7), auction.getTimestamp(5, 3).getMillisecond());
        }, new TypeHint<Tuple2<Long, Long>>() {}.getTypeInfo()).keyBy(auction -> auction.f0, Types.LONG);
        return persons.connect(auctions).process(new Opened(), Types.ROW(Types.LONG, Types.STRING, Types.LONG));
    }

    private static Tuple7<Long, Long, Long, String, String, Long, String> bid(RowData event) {
        RowData bid = event.getRow(3, 7);
        return Tuple7.of(bid.getLong(0), bid.getLong(1), bid.getLong(2), bid.getString(3).toString(), bid.getString(4).toString(),
            bid.getTimestamp(5, 3).getMillisecond(), bid.getString(6).toString());
    }

    private static Tuple10<Long, String, String, Long, Long, Long, Long, Long, Long, String> auction(RowData event) {
        RowData auction = event.getRow(2, 10);
        return Tuple10.of(auction.getLong(0), auction.getString(1).toString(), auction.getString(2).toString(), auction.getLong(3),
            auction.getLong(4), auction.getTimestamp(5, 3).getMillisecond(), auction.getTimestamp(6, 3).getMillisecond(),
            auction.getLong(7), auction.getLong(8), auction.getString(9).toString());
    }

    /** A bid whose auction is known comes out at once. One that is early waits for it. */
    private static final class Expand
        extends KeyedCoProcessFunction<Long, Tuple7<Long, Long, Long, String, String, Long, String>,
            Tuple10<Long, String, String, Long, Long, Long, Long, Long, Long, String>, Row> {
        private final boolean outer;
        private transient ValueState<Tuple10<Long, String, String, Long, Long, Long, Long, Long, Long, String>> known;
        private transient ListState<Tuple7<Long, Long, Long, String, String, Long, String>> early;

        Expand(boolean outer) {
            this.outer = outer;
        }

        @Override public void open(OpenContext context) {
            known = getRuntimeContext().getState(new ValueStateDescriptor<>("auction", AUCTION));
            early = getRuntimeContext().getListState(new ListStateDescriptor<>("early", BID));
        }

        @Override public void processElement1(Tuple7<Long, Long, Long, String, String, Long, String> bid, Context context, Collector<Row> out)
            throws Exception {
            var auction = known.value();
            if (auction != null) {
                write(bid, auction, out);
            } else {
                early.add(bid);
                context.timerService().registerEventTimeTimer(bid.f5 + WINDOW_MS);
            }
        }

        @Override public void processElement2(
            Tuple10<Long, String, String, Long, Long, Long, Long, Long, Long, String> auction, Context context, Collector<Row> out)
            throws Exception {
            known.update(auction);
            for (var bid : early.get()) write(bid, auction, out);
            early.clear();
            context.timerService().registerEventTimeTimer(auction.f5 + WINDOW_MS);
        }

        @Override public void onTimer(long time, OnTimerContext context, Collector<Row> out) throws Exception {
            var auction = known.value();
            if (auction != null && auction.f5 + WINDOW_MS <= time) known.clear();
            var waiting = new ArrayList<Tuple7<Long, Long, Long, String, String, Long, String>>();
            boolean gone = false;
            for (var bid : early.get()) {
                if (bid.f5 + WINDOW_MS > time) {
                    waiting.add(bid);
                } else {
                    gone = true;
                    write(bid, null, out);
                }
            }
            if (gone) early.update(waiting);
        }

        private void write(Tuple7<Long, Long, Long, String, String, Long, String> bid,
            Tuple10<Long, String, String, Long, Long, Long, Long, Long, Long, String> auction, Collector<Row> out) {
            boolean matches = auction != null && auction.f8 == CATEGORY;
            if (!matches && !outer) return;
            Row row = new Row(16);
            for (int i = 0; i < 7; i++) row.setField(i, bid.getField(i));
            if (matches) for (int i = 1; i < 10; i++) row.setField(6 + i, auction.getField(i));
            out.collect(row);
        }
    }

    /** A person comes out with the first auction of the same window, whichever of the two is there first. */
    private static final class Opened extends KeyedCoProcessFunction<Long, Tuple3<Long, String, Long>, Tuple2<Long, Long>, Row> {
        private transient MapState<Long, String> entered;
        private transient MapState<Long, Boolean> opened;

        @Override public void open(OpenContext context) {
            entered = getRuntimeContext().getMapState(new MapStateDescriptor<>("entered", Types.LONG, Types.STRING));
            opened = getRuntimeContext().getMapState(new MapStateDescriptor<>("opened", Types.LONG, Types.BOOLEAN));
        }

        @Override public void processElement1(Tuple3<Long, String, Long> person, Context context, Collector<Row> out) throws Exception {
            long start = person.f2 - Math.floorMod(person.f2, WINDOW_MS);
            if (opened.contains(start)) {
                out.collect(Row.of(person.f0, person.f1, start));
            } else {
                entered.put(start, person.f1);
                context.timerService().registerEventTimeTimer(start + WINDOW_MS - 1);
            }
        }

        @Override public void processElement2(Tuple2<Long, Long> auction, Context context, Collector<Row> out) throws Exception {
            long start = auction.f1 - Math.floorMod(auction.f1, WINDOW_MS);
            String name = entered.get(start);
            if (name != null) {
                out.collect(Row.of(auction.f0, name, start));
                entered.remove(start);
            } else {
                opened.put(start, true);
                context.timerService().registerEventTimeTimer(start + WINDOW_MS - 1);
            }
        }

        @Override public void onTimer(long time, OnTimerContext context, Collector<Row> out) throws Exception {
            entered.remove(time + 1 - WINDOW_MS);
            opened.remove(time + 1 - WINDOW_MS);
        }
    }
}
