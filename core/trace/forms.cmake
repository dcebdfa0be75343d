# Traces in forms of our own (text, stream) and in text of other tools.
target_sources(reprise_trace
    PRIVATE dns_words.cc dnsperf_source.cc fsdb_columns.cc fsdb_source.cc line_reader.cc
        message_columns.cc nearest.cc query_source.cc stream_form.cc stream_source.cc text_cells.cc
        text_explain.cc text_form.cc text_header.cc text_row.cc text_source.cc
    PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}
    FILES dns_words.hh dnsperf_source.hh fsdb_columns.hh fsdb_source.hh line_reader.hh
        message_columns.hh nearest.hh query_source.hh stream_form.hh stream_source.hh text_cells.hh
        text_explain.hh text_form.hh text_header.hh text_row.hh text_source.hh)
target_link_libraries(reprise_trace PRIVATE PkgConfig::xxhash)

reprise_test(forms_test LABEL unit TIMEOUT 180 LIBRARIES reprise_trace PkgConfig::archive PkgConfig::xxhash
    SOURCES forms_pipe_test.cc query_files_test.cc stream_source_test.cc test_packets.cc text_form_test.cc
        text_source_test.cc)
reprise_test(forms_data_test LABEL unit LIBRARIES reprise_trace
    SOURCES forms_data_test.cc test_packets.cc)
if(BUILD_TESTING)
    target_compile_definitions(forms_data_test PRIVATE REPRISE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
endif()
foreach(form IN ITEMS dnsperf fsdb stream text)
    reprise_fuzz(reader_${form} LIBRARIES reprise_trace PkgConfig::xxhash
        SOURCES reader_${form}_fuzz.cc test_packets.cc)
endforeach()
