# The delay line: how long each packet waits, and where it waits.
add_library(reprise_delay STATIC)
target_sources(reprise_delay
    PRIVATE delay_error.cc delay_line.cc delay_model.cc delay_options.cc rtt_cells.cc
        rtt_distribution.cc rtt_table.cc
    PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}
    FILES delay.hh delay_error.hh delay_line.hh delay_model.hh delay_options.hh rtt_cells.hh
        rtt_distribution.hh rtt_hash.hh rtt_table.hh)
target_link_libraries(reprise_delay PUBLIC reprise_core PRIVATE CLI11::CLI11)
set_target_properties(reprise_delay PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)

reprise_test(proxy_delay_test LABEL unit LIBRARIES reprise_delay CLI11::CLI11
    SOURCES delay_test.cc rtt_test.cc)
reprise_fuzz(reader_rtts LIBRARIES reprise_delay SOURCES reader_rtts_fuzz.cc)
