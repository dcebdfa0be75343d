# What a trace holds: counted, and shown as text and as JSON.
target_sources(reprise_mutator
    PRIVATE info_format.cc info_handshakes.cc info_names.cc info_rate.cc info_retransmits.cc
        info_skew.cc trace_info.cc trace_info_json.cc trace_info_text.cc
    PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}
    FILES info_format.hh info_handshakes.hh info_names.hh info_rate.hh info_retransmits.hh
        info_skew.hh trace_info.hh)

reprise_test(info_test LABEL unit LIBRARIES reprise_mutator
    SOURCES info_figures_test.cc info_names_test.cc info_skew_test.cc trace_info_test.cc)
reprise_test(info_data_test LABEL unit LIBRARIES reprise_mutator SOURCES info_data_test.cc)
if(TARGET info_data_test)
    target_compile_definitions(info_data_test PRIVATE
        REPRISE_SHARED_DEFAULT="${PROJECT_SOURCE_DIR}/../shared/data")
endif()
