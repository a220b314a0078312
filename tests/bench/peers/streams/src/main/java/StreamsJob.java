import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.ObjectWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;

/**
 * The jobs of the benchmark `kafka` as a user of Kafka Streams writes them: exactly once, state in RocksDB, an output
 * for each input. It runs until it is killed.
 *
 * <p>StreamsJob JOB SERVERS SINK STATE_FOLDER
 */
public final class StreamsJob {
    private static final Duration DAY = Duration.ofDays(1);
    private static final Serde<String> KEYS = Serdes.String();

    /** A value of any topic; columns that a topic does not have are null. */
    @JsonInclude(JsonInclude.Include.NON_NULL)
    public static final class Value {
        public String CUSTOMER;
        public Integer AMOUNT;
        public Integer DOUBLED;
        public Long N;
        public String LEFT;
        public String RIGHT;
    }

    private static final ObjectReader READER = new ObjectMapper().readerFor(Value.class);
    private static final ObjectWriter WRITER = new ObjectMapper().writerFor(Value.class);
    private static final Serde<Value> VALUES = Serdes.serdeFrom(StreamsJob::written, StreamsJob::read);

    private StreamsJob() {}

    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[2]);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[3]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, "2");
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, "0");
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, System.getenv().getOrDefault("COMMIT_MS", "1000"));
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        // By default Kafka Streams looks for closed windows once a second. At full speed it has then dropped most of them.
        settings.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_WINDOWED_AGGREGATION, "0");
        StreamsBuilder builder = new StreamsBuilder();
        build(arguments[0], builder, arguments[2]);
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
            return null;
        });
        streams.start();
    }

    private static void build(String job, StreamsBuilder builder, String sink) {
        switch (job) {
            case "filter" -> stream(builder, "orders")
                    .filter((key, value) -> value.AMOUNT != null && value.AMOUNT >= 10)
                    .mapValues(StreamsJob::doubled)
                    .to(sink, Produced.with(KEYS, VALUES));
            case "count" -> windows(grouped(builder, "orders"), TimeWindows.ofSizeAndGrace(seconds(10), DAY), sink, false);
            case "hopping" -> windows(
                    grouped(builder, "orders"),
                    TimeWindows.ofSizeAndGrace(seconds(10), DAY).advanceBy(seconds(5)),
                    sink,
                    false);
            case "final" -> windows(
                    grouped(builder, "orders"), TimeWindows.ofSizeAndGrace(seconds(2), seconds(1)), sink, true);
            case "session" -> written(
                    grouped(builder, "clicks")
                            .windowedBy(SessionWindows.ofInactivityGapAndGrace(seconds(5), DAY))
                            .count(Materialized.with(KEYS, Serdes.Long()))
                            .toStream(),
                    sink);
            case "stream-table" -> stream(builder, "orders")
                    .leftJoin(table(builder, "people"), StreamsJob::joined, Joined.with(KEYS, VALUES, VALUES))
                    .to(sink, Produced.with(KEYS, VALUES));
            case "table-table" -> table(builder, "lefts")
                    .leftJoin(table(builder, "rights"), StreamsJob::joined)
                    .toStream()
                    .to(sink, Produced.with(KEYS, VALUES));
            case "stream-stream" -> stream(builder, "lefts")
                    .join(
                            stream(builder, "rights"),
                            StreamsJob::joined,
                            JoinWindows.ofTimeDifferenceAndGrace(seconds(3), seconds(1)),
                            StreamJoined.with(KEYS, VALUES, VALUES))
                    .to(sink, Produced.with(KEYS, VALUES));
            case "foreign-key" -> table(builder, "bought")
                    .join(table(builder, "buyers"), value -> value.CUSTOMER, StreamsJob::joined,
                            Materialized.with(KEYS, VALUES))
                    .toStream()
                    .to(sink, Produced.with(KEYS, VALUES));
            default -> throw new IllegalArgumentException(job);
        }
    }

    private static KStream<String, Value> stream(StreamsBuilder builder, String topic) {
        return builder.stream(topic, Consumed.with(KEYS, VALUES));
    }

    private static KTable<String, Value> table(StreamsBuilder builder, String topic) {
        return builder.table(topic, Consumed.with(KEYS, VALUES), Materialized.with(KEYS, VALUES));
    }

    private static KGroupedStream<String, Value> grouped(StreamsBuilder builder, String topic) {
        return stream(builder, topic).groupByKey(Grouped.with(KEYS, VALUES));
    }

    private static void windows(
            KGroupedStream<String, Value> rows, TimeWindows windows, String sink, boolean isFinal) {
        var windowed = rows.windowedBy(windows);
        if (isFinal) {
            windowed = windowed.emitStrategy(EmitStrategy.onWindowClose());
        }
        written(windowed.count(Materialized.with(KEYS, Serdes.Long())).toStream(), sink);
    }

    /** Write counts with the key and the start of the window as ksqlDB does; a session that was merged is a tombstone. */
    private static void written(KStream<Windowed<String>, Long> counts, String sink) {
        counts.map((key, count) -> KeyValue.pair(key.key() + "@" + key.window().start(), counted(count)))
                .to(sink, Produced.with(KEYS, VALUES));
    }

    private static Value doubled(Value value) {
        Value made = new Value();
        made.CUSTOMER = value.CUSTOMER;
        made.DOUBLED = value.AMOUNT * 2;
        return made;
    }

    private static Value counted(Long count) {
        if (count == null) {
            return null;
        }
        Value made = new Value();
        made.N = count;
        return made;
    }

    private static Value joined(Value left, Value right) {
        Value made = new Value();
        made.AMOUNT = left.AMOUNT;
        made.LEFT = left.CUSTOMER;
        made.RIGHT = right == null ? null : right.CUSTOMER;
        return made;
    }

    private static Duration seconds(long number) {
        return Duration.ofSeconds(number);
    }

    private static byte[] written(String topic, Value value) {
        try {
            return value == null ? null : WRITER.writeValueAsBytes(value);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static Value read(String topic, byte[] bytes) {
        try {
            return bytes == null ? null : READER.readValue(bytes);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
