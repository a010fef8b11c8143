// RUN: gathernest-opt %s -p "prefetch{what=rows loop=outer lines=2}" --verify-diagnostics --split-input-file

// A step of a loop is not bounded, and each of its rows would be a line of code.
// expected-error@unknown {{indices takes 4611686018427387904 indices a step, and lines=2 asks for 2 rows for each; a step has 4096 prefetches at most, so tile the loop}}
func.func @gather(%data: memref<1x6x900x64xi32>, %indices: memref<1x50xi64>, %out: memref<1x6x50x64xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %step = arith.constant 4611686018427387904 : index
  %c6 = arith.constant 6 : index
  %c50 = arith.constant 50 : index
  %c64 = arith.constant 64 : index
  gather.loop outer(%o) = %c0 to %c6 step %c1 {
    gather.loop indices(%i) = %c0 to %c50 step %step {
      gather.loop inner(%j) = %c0 to %c64 step %c1 {
        %index = memref.load %indices[%c0, %i] : memref<1x50xi64>
        %position = arith.index_cast %index : i64 to index
        %element = memref.load %data[%c0, %o, %position, %j] : memref<1x6x900x64xi32>
        memref.store %element, %out[%c0, %o, %i, %j] : memref<1x6x50x64xi32>
      }
    }
  }
  func.return
}

// -----

// expected-error@unknown {{16 iterations ahead of outer are 73786976294838206464 places, which no index holds; use a smaller distance or step}}
func.func @gather(%data: memref<1x6x900x64xi32>, %indices: memref<1x50xi64>, %out: memref<1x6x50x64xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %step = arith.constant 4611686018427387904 : index
  %c50 = arith.constant 50 : index
  %c64 = arith.constant 64 : index
  gather.loop outer(%i) = %c0 to %c50 step %step {
    gather.loop inner(%j) = %c0 to %c64 step %c1 {
      %index = memref.load %indices[%c0, %i] : memref<1x50xi64>
      %position = arith.index_cast %index : i64 to index
      %element = memref.load %data[%c0, %c0, %position, %j] : memref<1x6x900x64xi32>
      memref.store %element, %out[%c0, %c0, %i, %j] : memref<1x6x50x64xi32>
    }
  }
  func.return
}
